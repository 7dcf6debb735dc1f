// RUN: dmc-opt %s -p dm-form-kernels | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels | %FileCheck %s --check-prefix=CPU

// Padding of what is only narrowed is part of the kernel that narrows it; padding that something else reads is not, nor on
// a CPU, where it is a kernel of its own.

// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: {{[^%]+}}, %[[B:[^:]+]]:
// CHECK-NEXT: %[[PADDED:.+]] = "dm.kernel"(%[[B]]) {body = @pad_0
// CHECK-NEXT: %[[NARROW:.+]]:2 = "dm.kernel"(%[[A]], %[[PADDED]]) {body = @elementwise_0
// CHECK-NEXT: return %[[NARROW]]#0, %[[NARROW]]#1, %[[PADDED]]
// CHECK: func.func private @elementwise_0
// CHECK: tensor.pad
// CHECK: arith.truncf

// CPU-LABEL: func.func @step
// CPU-NEXT: %[[FIRST:.+]] = "dm.kernel"({{.*}}) {body = @pad_0
// CPU: "dm.kernel"(%[[FIRST]]) {body = @elementwise_0
#row = affine_map<(i, j) -> (i, j)>
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<4x8xf32> {dm.name = "a", dm.role = "batch"}, %b: tensor<4x8xf32> {dm.name = "b", dm.role = "batch"})
    -> (tensor<4x16xbf16> {dm.name = "r0"}, tensor<4x16xbf16> {dm.name = "r1"}, tensor<4x16xf32> {dm.name = "r2"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x16xbf16>
  %wide = tensor.pad %a low[0, 0] high[0, 8] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x16xf32>
  %narrow = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%wide : tensor<4x16xf32>) outs(%empty : tensor<4x16xbf16>) {
    ^bb0(%x: f32, %o: bf16):
      %y = arith.truncf %x : f32 to bf16
      linalg.yield %y : bf16
  } -> tensor<4x16xbf16>
  %read = tensor.pad %b low[0, 0] high[0, 8] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x16xf32>
  %other = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%read : tensor<4x16xf32>) outs(%empty : tensor<4x16xbf16>) {
    ^bb0(%x: f32, %o: bf16):
      %y = arith.truncf %x : f32 to bf16
      linalg.yield %y : bf16
  } -> tensor<4x16xbf16>
  return %narrow, %other, %read : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x16xf32>
}
}
