// RUN: dmc-opt %s -p dm-split-all-reduce --verify-diagnostics

// Behind dm-async it is too late.
"dm.mesh"() {axes = ["dp"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 2>, sym_name = "mesh"} : () -> ()
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.start: already starts an all-reduce}}
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
