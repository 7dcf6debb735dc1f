// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @what_arrives
// CHECK: %[[R:[^ ]+]] = "dm.recv"()
// CHECK-NEXT: "dm.yield"(%[[R]]) : (tensor<8xf32>) -> ()
func.func @what_arrives() {
  %h, %t = "dm.start"() ({
    %r = "dm.recv"() {source = 0 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 0, 0>} : () -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// CHECK-LABEL: func.func @nothing_arrives
// CHECK: "dm.yield"() : () -> ()
func.func @nothing_arrives(%x: tensor<8xf32>) {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.send"(%a) {target = 1 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<none>, !dm.token)
  return
}
