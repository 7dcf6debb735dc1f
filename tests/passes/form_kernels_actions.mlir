// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// In a stage of a pipeline, what belongs to another action is another kernel: the sum of two micro-batches' gradients, and
// the second gradient. Within an action they are fused, and with what belongs to none.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.+]] = "dm.kernel"(%arg0)
// CHECK: %[[B:.+]] = "dm.kernel"(%{{.+}}, %[[A]])
// CHECK-NOT: "dm.kernel"
// CHECK: return %[[B]]
module attributes {dm.stage = {axis = "pp", index = 0 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
  func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
    %h, %t = "dm.start"() ({
      %0 = "dm.recv"() {source = 1 : i64, instance = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
      "dm.yield"(%0) : (tensor<8xf32>) -> ()
    }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 0, 0>} : () -> (!dm.handle<tensor<8xf32>>, !dm.token)
    %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
    %a = math.exp %x : tensor<8xf32> loc("action 0B0"("a#exp, backward"))
    %b = math.tanh %a : tensor<8xf32> loc("action 0B0"("a#tanh, backward"))
    %c = math.exp %y : tensor<8xf32> loc("action 0B1"("a#exp, backward"))
    %d = arith.addf %b, %c : tensor<8xf32> loc("action 0B1"("a#add, backward"))
    %e = arith.mulf %d, %d : tensor<8xf32> loc("a#mul, update")
    return %e : tensor<8xf32>
  }
}
