// RUN: dmc-opt --allow-undefined-symbols %s -p dm-fold-collectives --split-input-file | %FileCheck %s

// CHECK-LABEL: func.func @reduce_and_slice
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xbf16>)
// CHECK-NEXT: %[[Y:.+]] = "dm.reduce_scatter"(%[[X]]) {accumulate = f32, dim = 0 : i64, group = #dm.group<@mesh, ["tp", "dp"]>, reduction = #dm.reduction<"sum">} : (tensor<8xbf16>) -> tensor<2xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @reduce_and_slice(%x: tensor<8xbf16>) -> tensor<2xbf16> {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  // The order of the slice decides who gets what; to a reduction the order is nothing.
  %y = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<8xbf16>) -> tensor<2xbf16>
  return %y : tensor<2xbf16>
}

// Near miss: the whole is needed as well, and the slice of it is free.
// CHECK-LABEL: func.func @whole_is_used
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: return
func.func @whole_is_used(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %y = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %r, %y : tensor<8xf32>, tensor<4xf32>
}

// Near miss: the slice is over other ranks than the reduction.
// CHECK-LABEL: func.func @slice_over_others
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: return
func.func @slice_over_others(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %y = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %s = "dm.all_reduce"(%x) {reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %z = "dm.all_slice"(%s) {dim = 0 : i64, group = #dm.group<@other, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// Near miss: one has a communicator of its own.
// CHECK-LABEL: func.func @channels
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: return
func.func @channels(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @c} : (tensor<8xf32>) -> tensor<8xf32>
  %y = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %0 = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "dm.all_reduce"(%0) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @c} : (tensor<8xf32>) -> tensor<8xf32>
  return %y, %1 : tensor<4xf32>, tensor<8xf32>
}

// Near miss: the reduction stands before the loop, and must not be made in every round.
// CHECK-LABEL: func.func @loop
// CHECK: dm.all_reduce
// CHECK: scf.for
// CHECK: dm.all_slice
// CHECK: scf.yield
func.func @loop(%x: tensor<8xf32>, %z: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %l = scf.for %i = %zero to %n step %one iter_args(%c = %z) -> tensor<4xf32> {
    %y = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
    %s = arith.addf %c, %y : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %l : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @scatter_and_gather
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xbf16>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["dp"]>, reduction = #dm.reduction<"mean">} : (tensor<8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @scatter_and_gather(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %s = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"mean">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<4xbf16>
  %y = "dm.all_gather"(%s) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xbf16>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// Near miss: the piece is needed as well, so that to reduce it all would send it twice.
// CHECK-LABEL: func.func @piece_is_used
// CHECK-NEXT: dm.reduce_scatter
// CHECK-NEXT: dm.all_gather
// CHECK-NEXT: return
func.func @piece_is_used(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %s = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %y = "dm.all_gather"(%s) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
  return %s, %y : tensor<4xf32>, tensor<8xf32>
}

// Near miss: the pieces come back along another dimension, or in another order.
// CHECK-LABEL: func.func @gather_otherwise
// CHECK-COUNT-2: dm.reduce_scatter
// CHECK-COUNT-2: dm.all_gather
// CHECK: return
func.func @gather_otherwise(%x: tensor<8x8xf32>) -> (tensor<4x16xf32>, tensor<8x8xf32>) {
  %s = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = "dm.reduce_scatter"(%x) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %y = "dm.all_gather"(%s) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x16xf32>
  %z = "dm.all_gather"(%t) {dim = 0 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  return %y, %z : tensor<4x16xf32>, tensor<8x8xf32>
}

// -----

// What is gathered last is the major part; three become one.
// CHECK-LABEL: func.func @gather_of_gathers
// CHECK-SAME: (%[[X:[^:]+]]: tensor<1xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["a", "b", "c"]>} : (tensor<1xf32>) -> tensor<8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @gather_of_gathers(%x: tensor<1xf32>) -> tensor<8xf32> {
  %0 = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["c"]>} : (tensor<1xf32>) -> tensor<2xf32>
  %1 = "dm.all_gather"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<2xf32>) -> tensor<4xf32>
  %2 = "dm.all_gather"(%1) {dim = 0 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<4xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// Near miss: what is gathered in between is needed.
// CHECK-LABEL: func.func @first_gather_is_used
// CHECK-NEXT: %[[A:.+]] = "dm.all_gather"
// CHECK-NEXT: %[[B:.+]] = "dm.all_gather"(%[[A]])
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @first_gather_is_used(%x: tensor<1xf32>) -> (tensor<2xf32>, tensor<4xf32>) {
  %0 = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["c"]>} : (tensor<1xf32>) -> tensor<2xf32>
  %1 = "dm.all_gather"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<2xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<2xf32>, tensor<4xf32>
}

// Near miss: along another dimension.
// CHECK-LABEL: func.func @gathers_stay
// CHECK-COUNT-3: dm.all_gather
// CHECK-NEXT: return
func.func @gathers_stay(%x: tensor<1x1xf32>) -> tensor<4x2xf32> {
  %0 = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["c"]>} : (tensor<1x1xf32>) -> tensor<2x1xf32>
  %1 = "dm.all_gather"(%0) {dim = 1 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<2x1xf32>) -> tensor<2x2xf32>
  %2 = "dm.all_gather"(%1) {dim = 0 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<2x2xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// Near miss: a value that all ranks have may be gathered again, over the same axis.
// CHECK-LABEL: func.func @gather_repeats
// CHECK-COUNT-2: dm.all_gather
// CHECK-NEXT: return
func.func @gather_repeats(%x: tensor<1xf32>) -> tensor<4xf32> {
  %0 = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<1xf32>) -> tensor<2xf32>
  %1 = "dm.all_gather"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<2xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// What is sliced first is the major part; a slice is free, so the value in between may be needed.
// CHECK-LABEL: func.func @slice_of_slice
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[S:.+]] = "dm.all_slice"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<8xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[Y:.+]] = "dm.all_slice"(%[[X]]) {dim = 0 : i64, group = #dm.group<@mesh, ["b", "a"]>} : (tensor<8xf32>) -> tensor<2xf32>
// CHECK-NEXT: return %[[S]], %[[Y]]
func.func @slice_of_slice(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %1 = "dm.all_slice"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<4xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}

// Near miss: slices along two dimensions.
// CHECK-LABEL: func.func @slices_stay
// CHECK-COUNT-2: dm.all_slice
// CHECK-NEXT: return
func.func @slices_stay(%x: tensor<8x8xf32>) -> tensor<4x4xf32> {
  %0 = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = "dm.all_slice"(%0) {dim = 1 : i64, group = #dm.group<@mesh, ["a"]>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @reduce_twice
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["tp", "dp"]>, reduction = #dm.reduction<"max">} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @reduce_twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "dm.all_reduce"(%x) {reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "dm.all_reduce"(%0) {reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Near miss: the sum over one axis is needed.
// CHECK-LABEL: func.func @first_reduction_is_used
// CHECK-NEXT: %[[A:.+]] = "dm.all_reduce"
// CHECK-NEXT: %[[B:.+]] = "dm.all_reduce"(%[[A]])
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @first_reduction_is_used(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "dm.all_reduce"(%0) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Near miss: a maximum of sums, other accumulation, the same axis twice, another mesh.
// CHECK-LABEL: func.func @reductions_stay
// CHECK-COUNT-5: dm.all_reduce
// CHECK: return
func.func @reductions_stay(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %0 = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  %1 = "dm.all_reduce"(%0) {reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  %2 = "dm.all_reduce"(%1) {reduction = #dm.reduction<"max">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  %3 = "dm.all_reduce"(%2) {reduction = #dm.reduction<"max">, accumulate = f64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  %4 = "dm.all_reduce"(%3) {reduction = #dm.reduction<"max">, accumulate = f64, group = #dm.group<@other, ["tp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
  return %4 : tensor<8xbf16>
}

// -----

// CHECK-LABEL: func.func @undone
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x8xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]]
func.func @undone(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %a = "dm.all_gather"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %1 = "dm.all_gather"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x8xf32>) -> tensor<8x16xf32>
  %b = "dm.all_slice"(%1) {dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %2 = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x8xf32>) -> tensor<4x16xf32>
  %c = "dm.all_to_all"(%2) {split_dim = 1 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<4x16xf32>) -> tensor<8x8xf32>
  return %a, %b, %c : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// Near miss: another order, another axis, the same direction twice.
// CHECK-LABEL: func.func @not_undone
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: dm.all_gather
// CHECK-NEXT: dm.all_gather
// CHECK-NEXT: dm.all_slice
// CHECK-COUNT-4: dm.all_to_all
// CHECK-NEXT: return
func.func @not_undone(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<32x2xf32>) {
  %0 = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %a = "dm.all_gather"(%0) {dim = 0 : i64, group = #dm.group<@mesh, ["tp", "dp"]>} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %1 = "dm.all_gather"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x8xf32>) -> tensor<8x16xf32>
  %b = "dm.all_slice"(%1) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %2 = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<8x8xf32>) -> tensor<4x16xf32>
  %c = "dm.all_to_all"(%2) {split_dim = 1 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x16xf32>) -> tensor<8x8xf32>
  %3 = "dm.all_to_all"(%x) {split_dim = 1 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<16x4xf32>
  %d = "dm.all_to_all"(%3) {split_dim = 1 : i64, concat_dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<16x4xf32>) -> tensor<32x2xf32>
  return %a, %b, %c, %d : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<32x2xf32>
}

// -----

// What comes of one fold is folded again: reduced over tp, and over dp in two steps, is reduced over both.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.all_reduce"(%[[X]]) {accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>, reduction = #dm.reduction<"sum">} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %s = "dm.reduce_scatter"(%r) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %y = "dm.all_gather"(%s) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Repeated collectives are one, so that their common use can be folded; unused ones go.
// CHECK-LABEL: func.func @repeated_and_unused
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.+]] = "dm.reduce_scatter"(%[[X]])
// CHECK-NEXT: return %[[Y]], %[[Y]]
func.func @repeated_and_unused(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %unused = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<16xf32>
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %s = "dm.all_slice"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %q = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %t = "dm.all_slice"(%q) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// A movement that does the work of two says what both said, each part once; where nothing moves, nothing is said.
// CHECK-LABEL: func.func @labels
// CHECK-NEXT: dm.reduce_scatter{{.*}}dm.tensor = "gradient of w", dm.why = "dp; zero"
// CHECK-NOT: dm.why
// CHECK: return
func.func @labels(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %r = "dm.all_reduce"(%x) {dm.tensor = "gradient of w", dm.why = "dp", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %s = "dm.all_slice"(%r) {dm.tensor = "gradient of w", dm.why = "zero; dp", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
  %g = "dm.all_gather"(%x) {dm.why = "a", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<16xf32>
  %t = "dm.all_slice"(%g) {dm.why = "b", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<16xf32>) -> tensor<8xf32>
  return %s, %t : tensor<4xf32>, tensor<8xf32>
}

// Repeated movements are one, whatever each is there for, also behind others and beside what makes them part of blocks.
// CHECK-LABEL: func.func @labels_of_repeated
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>, %[[Z:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.+]] = "dm.all_reduce"(%[[X]]) {{.*}}dm.why = "one; two"
// CHECK-NEXT: %[[E:.+]] = tensor.expand_shape %[[A]]
// CHECK-NEXT: %[[B:.+]] = "dm.all_gather"(%[[E]]) {{.*}}dm.why = "one; two"
// CHECK-NEXT: %[[C:.+]] = "dm.all_reduce"(%[[Z]]) {{.*}}dm.why = "three"
// CHECK-NEXT: return %[[B]], %[[B]], %[[C]]
func.func @labels_of_repeated(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>) {
  %0 = "dm.all_reduce"(%x) {dm.why = "one", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %a = "dm.all_gather"(%1) {dm.why = "one", dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x2xf32>) -> tensor<2x4xf32>
  %2 = "dm.all_reduce"(%x) {dm.why = "two", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %b = "dm.all_gather"(%3) {dm.why = "two", dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x2xf32>) -> tensor<2x4xf32>
  %c = "dm.all_reduce"(%z) {dm.why = "three", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>
}

// So are movements of what is computed alike from them.
// CHECK-LABEL: func.func @repeated_behind_computation
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.+]] = "dm.all_reduce"(%[[X]]) {{.*}}dm.why = "one; two"
// CHECK-NEXT: %[[E:.+]] = math.exp %[[A]]
// CHECK-NEXT: %[[B:.+]] = "dm.all_gather"(%[[E]]) {{.*}}dm.why = "one; two"
// CHECK-NEXT: return %[[B]], %[[B]]
func.func @repeated_behind_computation(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "dm.all_reduce"(%x) {dm.why = "one", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %a = "dm.all_gather"(%1) {dm.why = "one", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
  %2 = "dm.all_reduce"(%x) {dm.why = "two", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = math.exp %2 : tensor<4xf32>
  %b = "dm.all_gather"(%3) {dm.why = "two", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
