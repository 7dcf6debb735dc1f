// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK-LABEL: func.func @collective
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[S:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK-NEXT: ^bb0(%[[A:[^:]+]]: tensor<8xf32>):
// CHECK-NEXT: %[[R:[^ ]+]] = "dm.broadcast"(%[[A]])
// CHECK-NEXT: "dm.yield"(%[[R]]) : (tensor<8xf32>) -> ()
// CHECK-NEXT: }) {instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"comm">} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
// CHECK: "dm.wait"(%[[S]]#0)
func.func @collective(%x: tensor<8xf32>) -> tensor<8xf32> {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Ordered by tokens, each used as often as needed; the ends of one message share an instance.
// CHECK-LABEL: func.func @ordered
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[OUT:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: queue = #dm.queue<"copy_out">
// CHECK: %[[SEND:[^:]+]]:2 = "dm.start"(%[[X]], %[[OUT]]#1) ({
// CHECK: "dm.yield"() : () -> ()
// CHECK: instance = 2 : i64, operandSegmentSizes = array<i32: 1, 1>, queue = #dm.queue<"comm">} : (tensor<8xf32>, !dm.token) -> (!dm.handle<none>, !dm.token)
// CHECK: %[[RECV:[^:]+]]:2 = "dm.start"(%[[OUT]]#1, %[[SEND]]#1) ({
// CHECK-NEXT: %[[M:[^ ]+]] = "dm.recv"()
// CHECK-NEXT: "dm.yield"(%[[M]])
// CHECK: instance = 2 : i64, operandSegmentSizes = array<i32: 0, 2>, queue = #dm.queue<"compute">} : (!dm.token, !dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
// CHECK: queue = #dm.queue<"copy_in">
func.func @ordered(%x: tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %h1, %t1 = "dm.start"(%x, %t0) ({
  ^bb0(%a: tensor<8xf32>):
    "dm.send"(%a) {target = 1 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>, !dm.token) -> (!dm.handle<none>, !dm.token)
  %h2, %t2 = "dm.start"(%t0, %t1) ({
    %r = "dm.recv"() {source = 0 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"compute">, instance = 2 : i64, operandSegmentSizes = array<i32: 0, 2>} : (!dm.token, !dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h3, %t3 = "dm.start"(%y) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.copy"(%a) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}
