// RUN: dmc-opt %s --for-people | %FileCheck %s

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"nvlink">]} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()

// Arguments with attributes have lines of their own. A movement is one line with its queue and its number; a token that is
// read is named.
// CHECK-LABEL: mesh @mesh of [dp] = [2] {device=cuda, links=[nvlink]}
// CHECK-NEXT: channel @dp {group=dp}
// CHECK-NEXT: func @step(
// CHECK-NEXT: {{^}}      %arg0: 4xf32 {name=w, role=parameter, sharding=[dp]}
// CHECK-NEXT: {{^}}      %arg1: 4xf32 {name=x, role=batch}
// CHECK-NEXT: {{^}}  ) -> (8xf32):
// CHECK-NEXT: %[[H:[0-9]+]]#0: handle 4xf32, %[[H]]#1: token = start on copy_in: copy(%arg1) pinned_host -> device "x" #0
// CHECK-NEXT: %[[G:[0-9]+]]#0: handle 8xf32 = start on comm after %[[H]]#1: all_gather(%arg0) {channel=@dp, dim=0, group=dp} "w" for "h.0, forward" #1
// CHECK-NEXT: %[[X:[0-9]+]]: 4xf32 = wait(%[[H]]#0)
// CHECK-NEXT: %[[W:[0-9]+]]: 8xf32 = wait(%[[G]]#0)
// CHECK-NEXT: %[[K:[0-9]+]]: 8xf32 = kernel @both(%[[X]], %[[W]]) {bytes=64, flops=8, implementation=iree, scratch=0} "h.0"
// CHECK-NEXT: %[[C:[0-9]+]]: 8xf32 = composite gelu(%[[K]]) {approximate=tanh, bias=none} by @gelu_0
// CHECK-NEXT: return(%[[C]])
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>},
                %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> tensor<8xf32> {
  %0:2 = "dm.start"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = "dm.copy"(%a) {dm.tensor = "x", source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<4xf32>) -> tensor<4xf32>
    "dm.yield"(%1) : (tensor<4xf32>) -> ()
  }) {instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>, queue = #dm.queue<"copy_in">} : (tensor<4xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
  %2:2 = "dm.start"(%w, %0#1) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = "dm.all_gather"(%a) {dim = 0 : i64, channel = @dp, dm.tensor = "w", dm.why = "h.0, forward", group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
    "dm.yield"(%1) : (tensor<8xf32>) -> ()
  }) {instance = 1 : i64, operandSegmentSizes = array<i32: 1, 1>, queue = #dm.queue<"comm">} : (tensor<4xf32>, !dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %3 = "dm.wait"(%0#0) : (!dm.handle<tensor<4xf32>>) -> tensor<4xf32>
  %4 = "dm.wait"(%2#0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %5 = "dm.kernel"(%3, %4) {body = @both, bytes = 64 : i64, dm.label = "h.0", flops = 8 : i64, implementation = "iree", scratch = 0 : i64} : (tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = "dm.composite"(%5) {kind = "gelu", decomposition = @gelu_0, parameters = {approximate = "tanh", bias = none}} : (tensor<8xf32>) -> tensor<8xf32>
  return %6 : tensor<8xf32>
}
func.func private @both(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  return %b : tensor<8xf32>
}
func.func private @gelu_0(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
