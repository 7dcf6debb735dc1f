// RUN: dmc-opt %s -p dm-pace-messages | %FileCheck %s

// Tokens between messages go, since their lane orders them; a send is waited for before the message behind it, the last one
// where it was.
// CHECK-LABEL: func.func @step
// CHECK: %[[R:.+]]:2 = "dm.start"() ({
// CHECK: "dm.recv"
// CHECK: %[[X:.+]] = "dm.wait"(%[[R]]#0)
// CHECK: %[[A:.+]] = "dm.kernel"(%[[X]])
// CHECK: %[[S0:.+]]:2 = "dm.start"(%[[A]]) ({
// CHECK: %[[B:.+]] = "dm.kernel"(%[[A]])
// CHECK-NEXT: "dm.wait"(%[[S0]]#0)
// CHECK-NEXT: %[[S1:.+]]:2 = "dm.start"(%[[B]]) ({
// CHECK: "dm.wait"(%[[S1]]#0)
// CHECK-NEXT: return
module attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 3>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
  func.func @step() {
    %h0, %t0 = "dm.start"() ({
      %0 = "dm.recv"() {source = 0 : i64, instance = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
      "dm.yield"(%0) : (tensor<8xf32>) -> ()
    }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 0, 0>} : () -> (!dm.handle<tensor<8xf32>>, !dm.token)
    %x = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
    %a = "dm.kernel"(%x) {body = @f} : (tensor<8xf32>) -> tensor<8xf32>
    %h1, %t1 = "dm.start"(%a, %t0) ({
    ^bb0(%0: tensor<8xf32>):
      "dm.send"(%0) {target = 2 : i64, instance = 1 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
      "dm.yield"() : () -> ()
    }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>, !dm.token) -> (!dm.handle<none>, !dm.token)
    "dm.wait"(%h1) : (!dm.handle<none>) -> ()
    %b = "dm.kernel"(%a) {body = @f} : (tensor<8xf32>) -> tensor<8xf32>
    %h2, %t2 = "dm.start"(%b, %t1) ({
    ^bb0(%0: tensor<8xf32>):
      "dm.send"(%0) {target = 2 : i64, instance = 2 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
      "dm.yield"() : () -> ()
    }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>, !dm.token) -> (!dm.handle<none>, !dm.token)
    "dm.wait"(%h2) : (!dm.handle<none>) -> ()
    return
  }
}
