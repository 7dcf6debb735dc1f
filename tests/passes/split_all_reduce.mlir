// RUN: dmc-opt %s -p dm-split-all-reduce{min_bytes=128} --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-split-all-reduce{min_bytes=128 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// Each rank updates its piece of the parameter, and the new value is gathered: as many bytes. Constants are those of a
// piece; what all elements share stays whole.
// CHECK-LABEL: func.func private @update_piece_0
// CHECK-SAME: (%[[A:[^:]+]]: tensor<2x8xf32>, %[[B:[^:]+]]: tensor<2x8xf32>, %[[C:[^:]+]]: tensor<f32>) -> tensor<2x8xf32> attributes {dm.kind = "elementwise"}
// CHECK-DAG: %[[TWO:[^ ]+]] = arith.constant dense<2.000000e+00> : tensor<2x8xf32>
// CHECK-DAG: %[[E:[^ ]+]] = tensor.empty() : tensor<2x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]], %[[C]], %[[TWO]] : {{.*}} outs(%[[E]] : tensor<2x8xf32>)
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4x8xf32> {{.*}}, %[[LR:[^:]+]]: tensor<f32> {{.*}}, %[[G:[^:]+]]: tensor<4x8xf32> {{.*}})
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.reduce_scatter"(%[[G]]) {accumulate = f32, dim = 0 : i64, dm.tensor = "gradient of w", {{.*}}reduction = #dm.reduction<"sum">} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %[[S:[^ ]+]] = "dm.all_slice"(%[[W]]) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %[[N:[^ ]+]] = "dm.kernel"(%[[S]], %[[P]], %[[LR]]) {body = @update_piece_0, bytes = 196 : i64, dm.label = "update", flops = 48 : i64}
// CHECK-NEXT: %[[V:[^ ]+]] = "dm.all_gather"(%[[N]]) {dim = 0 : i64, dm.tensor = "w", group = #dm.group<@mesh, ["dp"]>} : (tensor<2x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[V]]
// TABLE: movement bytes kernels on pieces gathered bytes why it stays
// TABLE-NEXT: dm.all_reduce (gradient of w) 128 1 128
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @update(%w: tensor<4x8xf32>, %g: tensor<4x8xf32>, %lr: tensor<f32>) -> tensor<4x8xf32> attributes {dm.kind = "elementwise"} {
  %c = arith.constant dense<2.0> : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%w, %g, %lr, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %r: f32, %two: f32, %o: f32):
    %0 = arith.mulf %b, %r : f32
    %1 = arith.mulf %0, %two : f32
    %2 = arith.subf %a, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}
func.func @step(%w: tensor<4x8xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %lr: tensor<f32> {dm.name = "lr", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [], {}>}, %g: tensor<4x8xf32> {dm.name = "g", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<4x8xf32> {dm.name = "w"}) {
  %r = "dm.all_reduce"(%g) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n = "dm.kernel"(%w, %r, %lr) {body = @update, flops = 96 : i64, bytes = 388 : i64, dm.label = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

// A slice of what is reduced costs nothing, also behind a kernel and a reshape, and however small it is.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4x8xf32> {{.*}}, %[[LR:[^:]+]]: tensor<f32> {{.*}}, %[[G:[^:]+]]: tensor<4x8xf32> {{.*}})
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.reduce_scatter"(%[[G]])
// CHECK-NEXT: %[[S:[^ ]+]] = "dm.all_slice"(%[[W]])
// CHECK-NEXT: %[[N:[^ ]+]] = "dm.kernel"(%[[S]], %[[P]], %[[LR]]) {body = @update_piece_0
// CHECK-NEXT: %[[F:[^ ]+]] = tensor.collapse_shape %[[N]] {{.*}} : tensor<2x8xf32> into tensor<16xf32>
// CHECK-NEXT: return %[[F]] : tensor<16xf32>
// TABLE: why it stays
// TABLE-NEXT: dm.all_reduce (gradient of w) 128 1 0
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @update(%w: tensor<4x8xf32>, %g: tensor<4x8xf32>, %lr: tensor<f32>) -> tensor<4x8xf32> attributes {dm.kind = "elementwise"} {
  %c = arith.constant dense<2.0> : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%w, %g, %lr, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %r: f32, %two: f32, %o: f32):
    %0 = arith.mulf %b, %r : f32
    %1 = arith.mulf %0, %two : f32
    %2 = arith.subf %a, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}
func.func @step(%w: tensor<4x8xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %lr: tensor<f32> {dm.name = "lr", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [], {}>}, %g: tensor<4x8xf32> {dm.name = "g", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<16xf32> {dm.name = "r"}) {
  %r = "dm.all_reduce"(%g) {dm.tensor = "gradient of w", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n = "dm.kernel"(%w, %r, %lr) {body = @update, flops = 96 : i64, bytes = 388 : i64, dm.label = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %f = tensor.collapse_shape %n [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %s = "dm.all_slice"(%f) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<32xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// -----

// Near misses: both the gradient and the new value are wanted whole; nothing is computed between; the parameter is
// not the same on all ranks, so a piece of another rank would be of another parameter.
// CHECK-LABEL: func.func @step
// CHECK-NOT: reduce_scatter
// CHECK-NOT: update_piece
// CHECK: return
// TABLE: why it stays
// TABLE-NEXT: dm.all_reduce (both) 128 1 0 func.return {{.*}}, which would require too large a gather
// TABLE-NEXT: dm.all_reduce (whole) 128 0 0 func.return {{.*}} reads it whole
// TABLE-NEXT: dm.all_reduce (differs) 128 0 0 @update (update) reads it whole
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @update(%w: tensor<4x8xf32>, %g: tensor<4x8xf32>, %lr: tensor<f32>) -> tensor<4x8xf32> attributes {dm.kind = "elementwise"} {
  %c = arith.constant dense<2.0> : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%w, %g, %lr, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %r: f32, %two: f32, %o: f32):
    %0 = arith.mulf %b, %r : f32
    %1 = arith.mulf %0, %two : f32
    %2 = arith.subf %a, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}
func.func @step(%w: tensor<4x8xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], []], {}>}, %v: tensor<4x8xf32> {dm.name = "v", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}, %lr: tensor<f32> {dm.name = "lr", dm.role = "control", dm.sharding = #dm.sharding<@mesh, [], {}>}, %g: tensor<4x8xf32> {dm.name = "g", dm.role = "batch", dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<4x8xf32> {dm.name = "w"}, tensor<4x8xf32> {dm.name = "v"}, tensor<4x8xf32> {dm.name = "x"}, tensor<4x8xf32> {dm.name = "y"}) {
  %r = "dm.all_reduce"(%g) {dm.tensor = "both", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n = "dm.kernel"(%w, %r, %lr) {body = @update, flops = 96 : i64, bytes = 388 : i64, dm.label = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %r1 = "dm.all_reduce"(%g) {dm.tensor = "whole", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r2 = "dm.all_reduce"(%w) {dm.tensor = "differs", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n2 = "dm.kernel"(%v, %r2, %lr) {body = @update, flops = 96 : i64, bytes = 388 : i64, dm.label = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %n, %n2, %r, %r1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Near misses: a body that reads places, one that goes from row to row, three rows for two ranks, what is small.
// CHECK-LABEL: func.func @step
// CHECK-NOT: reduce_scatter
// CHECK: return
// TABLE: why it stays
// TABLE-NEXT: dm.all_reduce (places) 128 0 0 @places (places) reads it whole
// TABLE-NEXT: dm.all_reduce (turned) 256 0 0 @turned (turned) reads it whole
// TABLE-NEXT: dm.all_reduce (three) 12 0 0 its first dimension is not divisible by 2 ranks
// TABLE-NEXT: dm.all_reduce (small) 16 1 0 smaller than 128 bytes
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @places(%g: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i32
    %f = arith.sitofp %k : i32 to f32
    %s = arith.addf %a, %f : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}
func.func private @turned(%g: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %n = linalg.transpose ins(%g : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) permutation = [1, 0]
  return %n : tensor<8x8xf32>
}
func.func private @negate(%g: tensor<4xf32>) -> tensor<4xf32> {
  %n = arith.negf %g : tensor<4xf32>
  return %n : tensor<4xf32>
}
func.func @step(%g: tensor<4x8xf32>, %t: tensor<8x8xf32>, %u: tensor<3xf32>, %v: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<3xf32>, tensor<4xf32>) {
  %a = "dm.all_reduce"(%g) {dm.tensor = "places", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = "dm.kernel"(%a) {body = @places, dm.label = "places"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = "dm.all_reduce"(%t) {dm.tensor = "turned", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = "dm.kernel"(%c) {body = @turned, dm.label = "turned"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = "dm.all_reduce"(%u) {dm.tensor = "three", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<3xf32>) -> tensor<3xf32>
  %f = "dm.all_reduce"(%v) {dm.tensor = "small", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %h = "dm.kernel"(%f) {body = @negate} : (tensor<4xf32>) -> tensor<4xf32>
  return %b, %d, %e, %h : tensor<4x8xf32>, tensor<8x8xf32>, tensor<3xf32>, tensor<4xf32>
}
