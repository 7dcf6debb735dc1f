// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @in_order
// CHECK-SAME: (%[[A:[^:]+]]: tensor<2x2xf32>, %[[B:[^:]+]]: tensor<3xf32>)
// CHECK: %[[F:[^ ]+]] = "dm.pack"(%[[A]], %[[B]]) {offsets = array<i64: 0, 4>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<7xf32>
// CHECK: return %[[F]]
func.func @in_order(%a: tensor<2x2xf32>, %b: tensor<3xf32>) -> tensor<7xf32> {
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 4>} : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<7xf32>
  return %f : tensor<7xf32>
}

// The table may place them in any order; a scalar has one element, an empty tensor none.
// CHECK-LABEL: func.func @any_order
// CHECK: "dm.pack"({{.*}}) {offsets = array<i64: 4, 0, 3, 4>} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<0xf32>) -> tensor<7xf32>
func.func @any_order(%a: tensor<3xf32>, %s: tensor<f32>, %e: tensor<0xf32>) -> tensor<7xf32> {
  %f = "dm.pack"(%a, %a, %s, %e) {offsets = array<i64: 4, 0, 3, 4>} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<0xf32>) -> tensor<7xf32>
  return %f : tensor<7xf32>
}

// Up to 255 bytes are padding: between members, and behind the last.
// CHECK-LABEL: func.func @padded
// CHECK: "dm.pack"({{.*}}) {offsets = array<i64: 0, 64>} : (tensor<1xf32>, tensor<3xf32>) -> tensor<128xf32>
// CHECK: "dm.pack"({{.*}}) {offsets = array<i64: 0, 256>} : (tensor<1xi1>, tensor<3xi1>) -> tensor<259xi1>
func.func @padded(%a: tensor<1xf32>, %b: tensor<3xf32>, %c: tensor<1xi1>, %d: tensor<3xi1>) -> (tensor<128xf32>, tensor<259xi1>) {
  %f = "dm.pack"(%a, %b) {offsets = array<i64: 0, 64>} : (tensor<1xf32>, tensor<3xf32>) -> tensor<128xf32>
  %g = "dm.pack"(%c, %d) {offsets = array<i64: 0, 256>} : (tensor<1xi1>, tensor<3xi1>) -> tensor<259xi1>
  return %f, %g : tensor<128xf32>, tensor<259xi1>
}
