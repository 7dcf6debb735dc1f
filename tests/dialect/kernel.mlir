// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @formed
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>, %[[S:[^:]+]]: f32)
// CHECK: %[[K:[^:]+]]:2 = "dm.kernel"(%[[X]], %[[S]]) ({
// CHECK-NEXT: ^bb0(%[[A:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: f32):
// CHECK-NEXT: %[[R:[^ ]+]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT: "dm.yield"(%[[R]], %[[B]]) : (tensor<8xf32>, f32) -> ()
// CHECK-NEXT: }) : (tensor<8xf32>, f32) -> (tensor<8xf32>, f32)
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @formed(%x: tensor<8xf32>, %s: f32) -> (tensor<8xf32>, f32) {
  %y:2 = "dm.kernel"(%x, %s) ({
  ^bb0(%a: tensor<8xf32>, %b: f32):
    %r = arith.addf %a, %a : tensor<8xf32>
    "dm.yield"(%r, %b) : (tensor<8xf32>, f32) -> ()
  }) : (tensor<8xf32>, f32) -> (tensor<8xf32>, f32)
  return %y#0, %y#1 : tensor<8xf32>, f32
}

// A composite may stay whole inside, for an implementation to take.
// CHECK-LABEL: func.func @selected
// CHECK: "dm.composite"
// CHECK: }) {estimated_bytes = 64 : i64, estimated_ns = 1500 : i64, implementation = "triton.gelu", tiles = {block = 128 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
func.func @selected(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "dm.kernel"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.composite"(%a) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {implementation = "triton.gelu", tiles = {block = 128 : i64}, estimated_ns = 1500 : i64, estimated_bytes = 64 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
