// RUN: dmc-opt %s -p dm-lower-reshard | %FileCheck %s --implicit-check-not=dm.reshard

"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// Split to replicated, along one dimension.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2x8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<2x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @gather(%x: tensor<2x8xf32>) -> tensor<8x8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["tp"], []], {}>,
                         target = #dm.sharding<@mesh, [[], []], {}>} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// Replicated to split: nothing is sent, and the group counts major first.
// CHECK-LABEL: func.func @slice
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_slice"(%[[X]]) {dim = 1 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<8x8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT: return %[[Y]]
func.func @slice(%x: tensor<8x8xf32>) -> tensor<8x1xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[], []], {}>,
                         target = #dm.sharding<@mesh, [[], ["tp", "dp"]], {}>} : (tensor<8x8xf32>) -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}

// Split to split: the minor axis of a dimension moves to another.
// CHECK-LABEL: func.func @other_dimension
// CHECK-SAME: (%[[X:[^:]+]]: tensor<1x8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_to_all"(%[[X]]) {concat_dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>, split_dim = 1 : i64} : (tensor<1x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @other_dimension(%x: tensor<1x8xf32>) -> tensor<4x2xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp", "tp"], []], {}>,
                         target = #dm.sharding<@mesh, [["dp"], ["tp"]], {}>} : (tensor<1x8xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// Partial to replicated: all axes at once is cheaper than one after the other. Narrow floats are summed in f32.
// CHECK-LABEL: func.func @all_reduce
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xbf16>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>, reduction = #dm.reduction<"sum">} : (tensor<8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @all_reduce(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">, tp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [[]], {}>} : (tensor<8xbf16>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// Partial to split.
// CHECK-LABEL: func.func @reduce_scatter
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xf16>)
// CHECK-NEXT: %[[Y:.+]] = "dm.reduce_scatter"(%[[X]]) {accumulate = f32, dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8x8xf16>) -> tensor<8x4xf16>
// CHECK-NEXT: return %[[Y]]
func.func @reduce_scatter(%x: tensor<8x8xf16>) -> tensor<8x4xf16> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[], []], {dp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [[], ["dp"]], {}>} : (tensor<8x8xf16>) -> tensor<8x4xf16>
  return %y : tensor<8x4xf16>
}

// Other types accumulate in themselves.
// CHECK-LABEL: func.func @all_reduce_f64
// CHECK-SAME: (%[[X:[^:]+]]: tensor<f64>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f64, group = #dm.group<@mesh, ["tp"]>, reduction = #dm.reduction<"max">} : (tensor<f64>) -> tensor<f64>
// CHECK-NEXT: return %[[Y]]
func.func @all_reduce_f64(%x: tensor<f64>) -> tensor<f64> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [], {tp = #dm.reduction<"max">}>,
                         target = #dm.sharding<@mesh, [], {}>} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// So do integers.
// CHECK-LABEL: func.func @all_reduce_i32
// CHECK-SAME: (%[[X:[^:]+]]: tensor<i32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = i32, group = #dm.group<@mesh, ["tp"]>, reduction = #dm.reduction<"max">} : (tensor<i32>) -> tensor<i32>
// CHECK-NEXT: return %[[Y]]
func.func @all_reduce_i32(%x: tensor<i32>) -> tensor<i32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [], {tp = #dm.reduction<"max">}>,
                         target = #dm.sharding<@mesh, [], {}>} : (tensor<i32>) -> tensor<i32>
  return %y : tensor<i32>
}

// Replicated to partial: the first rank keeps the value, the others get zeros.
// CHECK-LABEL: func.func @becomes_partial
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.permute"(%[[X]]) {group = #dm.group<@mesh, ["tp"]>, source_target_pairs = dense<0> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @becomes_partial(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[]], {}>,
                         target = #dm.sharding<@mesh, [[]], {tp = #dm.reduction<"sum">}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Split to partial: by way of the whole value.
// CHECK-LABEL: func.func @split_to_partial
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: %[[W:.+]] = "dm.all_gather"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[Y:.+]] = "dm.permute"(%[[W]]) {group = #dm.group<@mesh, ["dp"]>, {{.*}}} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @split_to_partial(%x: tensor<4xf32>) -> tensor<8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"]], {}>,
                         target = #dm.sharding<@mesh, [[]], {dp = #dm.reduction<"sum">}>} : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// On two axes the order matters: what is scattered first makes the gather cheaper.
// CHECK-LABEL: func.func @two_axes
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[S:.+]] = "dm.reduce_scatter"(%[[X]]) {accumulate = f32, dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>, reduction = #dm.reduction<"sum">} : (tensor<4x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[S]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x2xf32>) -> tensor<8x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @two_axes(%x: tensor<4x8xf32>) -> tensor<8x2xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], []], {tp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [[], ["tp"]], {}>} : (tensor<4x8xf32>) -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// The major axis cannot be gathered under the minor one: the pieces change places first.
// CHECK-LABEL: func.func @major_axis_goes
// CHECK-SAME: (%[[X:[^:]+]]: tensor<1xf32>)
// CHECK-NEXT: %[[P:.+]] = "dm.permute"(%[[X]]) {group = #dm.group<@mesh, ["dp", "tp"]>, source_target_pairs = dense<{{\[}}[0, 0], [1, 4], [2, 1], [3, 5], [4, 2], [5, 6], [6, 3], [7, 7]]> : tensor<8x2xi64>} : (tensor<1xf32>) -> tensor<1xf32>
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[P]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<1xf32>) -> tensor<2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @major_axis_goes(%x: tensor<1xf32>) -> tensor<2xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp", "tp"]], {}>,
                         target = #dm.sharding<@mesh, [["tp"]], {}>} : (tensor<1xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// Near miss: where nothing changes, nothing is left.
// CHECK-LABEL: func.func @same
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"]], {tp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [["dp"]], {tp = #dm.reduction<"sum">}>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Near miss: the axis that stays is in no group.
// CHECK-LABEL: func.func @others_stay
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x2xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[X]]) {dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<4x2xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @others_stay(%x: tensor<4x2xf32>) -> tensor<4x8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"], ["tp"]], {}>,
                         target = #dm.sharding<@mesh, [["dp"], []], {}>} : (tensor<4x2xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Near miss: a reduction on the smaller part comes before the gather, but one element cannot be scattered.
// CHECK-LABEL: func.func @no_room_to_scatter
// CHECK-SAME: (%[[X:[^:]+]]: tensor<1xf32>)
// CHECK-NEXT: %[[S:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"sum">} : (tensor<1xf32>) -> tensor<1xf32>
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[S]]) {dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<1xf32>) -> tensor<4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @no_room_to_scatter(%x: tensor<1xf32>) -> tensor<4xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["tp"]], {dp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [[]], {}>} : (tensor<1xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A chain is lowered link by link, also inside a loop.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>,
// CHECK: scf.for {{.*}} iter_args(%[[CARRIED:.+]] = %[[X]])
// CHECK-NEXT: %[[S:.+]] = "dm.all_slice"(%[[CARRIED]])
// CHECK-NEXT: %[[G:.+]] = "dm.all_gather"(%[[S]])
// CHECK-NEXT: scf.yield %[[G]]
func.func @chain(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> tensor<8xf32> {
    %s = "dm.reshard"(%c) {source = #dm.sharding<@mesh, [[]], {}>, target = #dm.sharding<@mesh, [["dp"]], {}>} : (tensor<8xf32>) -> tensor<4xf32>
    %g = "dm.reshard"(%s) {source = #dm.sharding<@mesh, [["dp"]], {}>, target = #dm.sharding<@mesh, [[]], {}>} : (tensor<4xf32>) -> tensor<8xf32>
    scf.yield %g : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// Near miss: along an axis of one rank everything is the same, and nothing is left.
// CHECK-LABEL: func.func @one_rank
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: return %[[X]]
"dm.mesh"() {sym_name = "alone", axes = ["dp"], sizes = array<i64: 1>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @one_rank(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@alone, [[]], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@alone, [["dp"]], {}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Within three blocks: the blocks are a dimension of their own meanwhile.
// CHECK-LABEL: func.func @blocks
// CHECK: %[[APART:.+]] = tensor.expand_shape %arg0 {{\[}}[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf32> into tensor<4x3x2xf32>
// CHECK: %[[ALL:.+]] = "dm.all_gather"(%[[APART]]) {dim = 2 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x3x2xf32>) -> tensor<4x3x4xf32>
// CHECK: %[[JOINED:.+]] = tensor.collapse_shape %[[ALL]] {{\[}}[0], [1, 2]] : tensor<4x3x4xf32> into tensor<4x12xf32>
// CHECK: return %[[JOINED]]
func.func @blocks(%x: tensor<4x6xf32>) -> tensor<4x12xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[], ["3*dp"]], {}>, target = #dm.sharding<@mesh, [[], []], {}>} : (tensor<4x6xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// From blocks of one dimension to a range of the other.
// CHECK-LABEL: func.func @exchange
// CHECK: tensor.expand_shape %arg0 {{\[}}[0], [1, 2]] output_shape [4, 3, 2]
// CHECK: "dm.all_to_all"({{.+}}) {concat_dim = 2 : i64, group = #dm.group<@mesh, ["dp"]>, split_dim = 0 : i64} : (tensor<4x3x2xf32>) -> tensor<2x3x4xf32>
// CHECK: tensor.collapse_shape {{.+}} {{\[}}[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>
func.func @exchange(%x: tensor<4x6xf32>) -> tensor<2x12xf32> {
  %y = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [[], ["3*dp"]], {}>, target = #dm.sharding<@mesh, [["dp"], []], {}>} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  return %y : tensor<2x12xf32>
}

// What a reshard carries and why, each of its movements says.
// CHECK-LABEL: func.func @labels
// CHECK: dm.reduce_scatter{{.*}}dm.tensor = "gradient of w", dm.why = "zero2"
// CHECK-NEXT: dm.all_gather{{.*}}dm.tensor = "gradient of w", dm.why = "zero2"
// CHECK-NEXT: dm.all_gather
// CHECK-NOT: dm.why
func.func @labels(%x: tensor<8x8xf32>) -> tensor<8x32xf32> {
  %y = "dm.reshard"(%x) {dm.tensor = "gradient of w", dm.why = "zero2",
                         source = #dm.sharding<@mesh, [[], ["tp"]], {dp = #dm.reduction<"sum">}>,
                         target = #dm.sharding<@mesh, [["dp"], []], {}>} : (tensor<8x8xf32>) -> tensor<4x32xf32>
  %z = "dm.reshard"(%y) {source = #dm.sharding<@mesh, [["dp"], []], {}>,
                         target = #dm.sharding<@mesh, [[], []], {}>} : (tensor<4x32xf32>) -> tensor<8x32xf32>
  return %z : tensor<8x32xf32>
}

// If it does not say why, its first reader is why, also behind another reshard; near miss: a reader of no module.
// CHECK-LABEL: func.func @readers
// CHECK: dm.all_gather{{.*}}dm.tensor = "w", dm.why = "h.0.mlp#aten.add"
// CHECK: dm.all_gather{{.*}}dm.tensor = "v", dm.why = "h.0.mlp#aten.add, backward"
// CHECK-NEXT: dm.all_gather{{.*}}dm.why = "h.0.mlp#aten.add, backward"
// CHECK: dm.all_gather
// CHECK-NOT: dm.why
// CHECK: return
func.func @readers(%x: tensor<4xf32>, %y: tensor<1xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = "dm.reshard"(%x) {dm.tensor = "w", source = #dm.sharding<@mesh, [["dp"]], {}>,
                         target = #dm.sharding<@mesh, [[]], {}>} : (tensor<4xf32>) -> tensor<8xf32>
  %b = arith.addf %a, %a : tensor<8xf32> loc("h.0.mlp#aten.add"("model.py":3:0))
  %c = arith.mulf %a, %a : tensor<8xf32> loc("h.0.mlp#aten.mul"("model.py":4:0))
  %d = "dm.reshard"(%y) {dm.tensor = "v", source = #dm.sharding<@mesh, [["dp", "tp"]], {}>,
                         target = #dm.sharding<@mesh, [["dp"]], {}>} : (tensor<1xf32>) -> tensor<4xf32>
  %e = "dm.reshard"(%d) {source = #dm.sharding<@mesh, [["dp"]], {}>,
                         target = #dm.sharding<@mesh, [[]], {}>} : (tensor<4xf32>) -> tensor<8xf32>
  %f = arith.addf %e, %b : tensor<8xf32> loc("h.0.mlp#aten.add, backward"("model.py":5:0))
  %g = "dm.reshard"(%x) {source = #dm.sharding<@mesh, [["dp"]], {}>,
                         target = #dm.sharding<@mesh, [[]], {}>} : (tensor<4xf32>) -> tensor<8xf32>
  return %c, %f, %g : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
