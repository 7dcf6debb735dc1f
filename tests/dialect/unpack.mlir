// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @two
// CHECK-SAME: (%[[F:[^:]+]]: tensor<7xf32>)
// CHECK: %[[T:[^:]+]]:2 = "dm.unpack"(%[[F]]) {offsets = array<i64: 3, 0>} : (tensor<7xf32>) -> (tensor<2x2xf32>, tensor<3xf32>)
// CHECK: return %[[T]]#0, %[[T]]#1
func.func @two(%f: tensor<7xf32>) -> (tensor<2x2xf32>, tensor<3xf32>) {
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 3, 0>} : (tensor<7xf32>) -> (tensor<2x2xf32>, tensor<3xf32>)
  return %a, %b : tensor<2x2xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @padded
// CHECK: "dm.unpack"({{.*}}) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<1xf32>, tensor<3xf32>)
func.func @padded(%f: tensor<128xf32>) -> (tensor<1xf32>, tensor<3xf32>) {
  %a, %b = "dm.unpack"(%f) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<1xf32>, tensor<3xf32>)
  return %a, %b : tensor<1xf32>, tensor<3xf32>
}
