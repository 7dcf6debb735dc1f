// RUN: dmc-opt %s -p dm-assign-queues --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p dm-assign-queues,dm-assign-queues --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-assign-queues{reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// One channel for each group, in the order of first use; a channel that exists serves its group; a name that is taken
// is not given again. Groups along different axes share one rank at most, so nothing orders them; a group along both
// shares several with each.
// CHECK: "dm.mesh"
// CHECK-NEXT: "dm.channel"() {group = #dm.group<@mesh, ["tp"]>, sym_name = "mine"}
// CHECK-NEXT: "dm.channel"() {group = #dm.group<@mesh, ["dp"]>, sym_name = "dp_0"}
// CHECK-NEXT: "dm.channel"() {group = #dm.group<@mesh, ["dp", "tp"]>, sym_name = "dp_tp"}
// CHECK-NEXT: func.func private @dp()
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[D:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: channel = @dp_0
// CHECK: "dm.wait"
// CHECK-NEXT: %[[T:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: channel = @mine
// CHECK: "dm.wait"
// CHECK-NEXT: %[[B:[^:]+]]:2 = "dm.start"(%[[X]], %[[T]]#1, %[[D]]#1) ({
// CHECK: channel = @dp_tp
// CHECK: instance = 2 : i64, operandSegmentSizes = array<i32: 1, 2>
// TABLE: movement{{ +}}queue{{ +}}now waits for
// TABLE-NEXT: dm.all_reduce (gradient of w){{ +}}comm@dp_0{{$}}
// TABLE-NEXT: dm.all_reduce (y){{ +}}comm@mine{{$}}
// TABLE-NEXT: dm.all_reduce (clip){{ +}}comm@dp_tp{{ +}}dm.all_reduce (y) on mine, dm.all_reduce (gradient of w) on dp_0{{$}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "mine", group = #dm.group<@mesh, ["tp"]>} : () -> ()
func.func private @dp()
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "y", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "clip", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y0, %y1, %y2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Near misses: the second takes what the first delivers; the third is behind the second on its lane, and so behind the
// first; the fourth is ordered with the third only.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %{{[^:]+}}:2 = "dm.start"(%[[X]]) ({
// CHECK: channel = @dp,
// CHECK: %[[W:[^ ]+]] = "dm.wait"
// CHECK-NEXT: %[[Y:[^ ]+]] = arith.negf %[[W]]
// CHECK-NEXT: %{{[^:]+}}:2 = "dm.start"(%[[Y]]) ({
// CHECK: channel = @dp_tp,
// CHECK: "dm.wait"
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[X]]) ({
// CHECK: channel = @dp_tp,
// CHECK: "dm.wait"
// CHECK-NEXT: %{{[^:]+}}:2 = "dm.start"(%[[X]], %[[S]]#1) ({
// CHECK: channel = @dp,
// CHECK: return
// TABLE: movement
// TABLE-NEXT: dm.all_reduce {{[^ ]+}} comm@dp{{ *$}}
// TABLE-NEXT: dm.all_reduce {{[^ ]+}} comm@dp_tp{{ *$}}
// TABLE-NEXT: dm.all_reduce {{[^ ]+}} comm@dp_tp{{ *$}}
// TABLE-NEXT: dm.all_reduce {{[^ ]+}} comm@dp dm.all_reduce {{[^ ]+}} on dp_tp{{$}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %n = arith.negf %y0 : tensor<8xf32>
  %h1, %t1 = "dm.start"(%n) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h3, %t3 = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y3 = "dm.wait"(%h3) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y1, %y2, %y3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
