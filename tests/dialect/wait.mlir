// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK-LABEL: func.func @delivers
// CHECK-SAME: (%[[H:[^:]+]]: !dm.handle<tensor<8xf32>>)
// CHECK: %[[Y:[^ ]+]] = "dm.wait"(%[[H]]) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
// CHECK: return %[[Y]]
func.func @delivers(%h: !dm.handle<tensor<8xf32>>) -> tensor<8xf32> {
  %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @sent
// CHECK-SAME: (%[[H:[^:]+]]: !dm.handle<none>)
// CHECK: "dm.wait"(%[[H]]) : (!dm.handle<none>) -> ()
func.func @sent(%h: !dm.handle<none>) {
  "dm.wait"(%h) : (!dm.handle<none>) -> ()
  return
}
