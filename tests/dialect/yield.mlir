// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @several_values
// CHECK: ^bb0(%[[A:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: i64):
// CHECK-NEXT: "dm.yield"(%[[B]], %[[A]]) : (i64, tensor<8xf32>) -> ()
func.func @several_values(%x: tensor<8xf32>, %n: i64) {
  %r:2 = "dm.kernel"(%x, %n) ({
  ^bb0(%a: tensor<8xf32>, %b: i64):
    "dm.yield"(%b, %a) : (i64, tensor<8xf32>) -> ()
  }) : (tensor<8xf32>, i64) -> (i64, tensor<8xf32>)
  return
}

// CHECK-LABEL: func.func @none
// CHECK: "dm.yield"() : () -> ()
func.func @none() {
  "dm.kernel"() ({
    "dm.yield"() : () -> ()
  }) : () -> ()
  return
}
