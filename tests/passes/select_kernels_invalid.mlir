// RUN: not dmc-opt %s -p dm-select-kernels 2>&1 | %FileCheck %s

// CHECK: kernel @powers, {{.*}}:4: IREE compiles it to branches or loops, not only dispatches, fills and copies
func.func private @powers(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %y = scf.for %i = %c0 to %c5 step %c1 iter_args(%each = %x) -> tensor<4x8xf32> {
    %next = math.exp %each : tensor<4x8xf32>
    scf.yield %next : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}
func.func @step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = "dm.kernel"(%x) {body = @powers} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
