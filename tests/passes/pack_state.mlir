// RUN: dmc-opt %s -p dm-pack-state --split-input-file | %FileCheck %s

// Two parameters of different shapes and their momenta: one kernel updates all. What the forward pass reads stays an
// argument, a view; the momenta are in their arena only. Offsets are multiples of 256 bytes, lengths of 1024 elements.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[V:[^:]+]]: tensor<2x3xf32> {dm.name = "v", dm.role = "parameter"}
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}
// CHECK-SAME: %[[R:[^:]+]]: tensor<f32> {dm.name = "lr", dm.role = "control"}
// CHECK-SAME: %[[P:[^:]+]]: tensor<1024xf32> {dm.members = {v = 0 : i64, w = 64 : i64}, dm.name = "arena:0.parameter", dm.role = "arena"}
// CHECK-SAME: %[[M:[^:]+]]: tensor<1024xf32> {dm.members = {v.m = 0 : i64, w.m = 64 : i64}, dm.name = "arena:0.m", dm.role = "arena"}
// CHECK-SAME: -> (tensor<1024xf32> {dm.name = "arena:0.parameter"}, tensor<1024xf32> {dm.name = "arena:0.m"}, tensor<f32> {dm.name = "loss"})
// Gradients are gathered in the order in which they are computed.
// CHECK: %[[GW:.+]] = math.tanh %[[W]]
// CHECK: %[[GV:.+]] = math.tanh %[[V]]
// CHECK: %[[LOSS:.+]] = tensor.extract_slice %[[GW]]
// CHECK: %[[LOSS_IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[LOSS]])
// CHECK: %[[FLAT_W:.+]] = tensor.insert_slice %[[GW]] into %{{.+}}[64] [4] [1]
// CHECK: %[[LINE:.+]] = tensor.collapse_shape %[[GV]]
// CHECK: %[[FLAT:.+]] = tensor.insert_slice %[[LINE]] into %[[FLAT_W]][0] [6] [1]
// CHECK: %[[GRADIENT:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[FLAT]])
// The fence holds an element of the gradients and of the loss.
// CHECK: tensor.insert_slice %{{.+}} into %{{.+}}[0] [1] [1] : tensor<1xf32> into tensor<2xf32>
// CHECK: tensor.insert_slice %{{.+}} into %{{.+}}[1] [1] [1] : tensor<1xf32> into tensor<2xf32>
// CHECK: "iree_tensor_ext.compute_barrier_start"(%{{.+}}) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: %[[NEW:.+]]:2 = linalg.generic {{.*}} ins(%[[GRADIENT]], %[[R]], %{{.+}} : tensor<1024xf32>, tensor<f32>, tensor<f32>) outs(%[[P]], %[[M]] : tensor<1024xf32>, tensor<1024xf32>)
// CHECK: arith.mulf
// CHECK: arith.subf
// CHECK: return %[[NEW]]#0, %[[NEW]]#1, %[[LOSS_IN_MEMORY]]
func.func @step(
    %v: tensor<2x3xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %vm: tensor<2x3xf32> {dm.name = "v.m", dm.role = "optimizer"},
    %wm: tensor<4xf32> {dm.name = "w.m", dm.role = "optimizer"},
    %lr: tensor<f32> {dm.name = "lr", dm.role = "control"})
    -> (tensor<2x3xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}, tensor<2x3xf32> {dm.name = "v.m"},
        tensor<4xf32> {dm.name = "w.m"}, tensor<f32> {dm.name = "loss"}) {
  %gw = math.tanh %w : tensor<4xf32>
  %gv = math.tanh %v : tensor<2x3xf32>
  %loss = tensor.extract_slice %gw[0] [1] [1] : tensor<4xf32> to tensor<f32>
  %new_v, %new_vm = "dm.composite"(%v, %gv, %vm, %lr, %loss)
      {kind = "optimizer_update_heavy", decomposition = @heavy_0, parameters = {}}
      : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %new_w, %new_wm = "dm.composite"(%w, %gw, %wm, %lr, %loss)
      {kind = "optimizer_update_heavy", decomposition = @heavy_1, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %new_v, %new_w, %new_vm, %new_wm, %loss
      : tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<f32>
}
#all = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
func.func private @heavy_0(%w: tensor<2x3xf32>, %g: tensor<2x3xf32>, %m: tensor<2x3xf32>, %lr: tensor<f32>,
    %scale: tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %new_m = arith.addf %m, %g : tensor<2x3xf32>
  %empty = tensor.empty() : tensor<2x3xf32>
  %new = linalg.generic {indexing_maps = [#all, #all, #one, #one, #all], iterator_types = ["parallel", "parallel"]}
      ins(%w, %new_m, %lr, %scale : tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>)
      outs(%empty : tensor<2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %s: f32, %out: f32):
    %0 = arith.mulf %c, %s : f32
    %1 = arith.mulf %b, %0 : f32
    %2 = arith.subf %a, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2x3xf32>
  return %new, %new_m : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @heavy_1(%w: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %lr: tensor<f32>,
    %scale: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %w, %m : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: other parameters of the update, other arenas.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.members = {v = 0 : i64}, dm.name = "arena:0.parameter"
// CHECK-SAME: dm.members = {w = 0 : i64}, dm.name = "arena:1.parameter"
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %g: tensor<4xf32> {dm.name = "g", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}) {
  %new_v = "dm.composite"(%v, %g) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {decay = 0.1 : f64}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %new_w = "dm.composite"(%w, %g) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {decay = 0.2 : f64}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new_v, %new_w : tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The sum of the squares of all gradients becomes that of the arena; the norm of something else stays.
// CHECK-LABEL: func.func @step
// CHECK: %[[FLAT:.+]] = "iree_tensor_ext.compute_barrier_start"(%{{.+}}) : (tensor<1024xf32>) -> tensor<1024xf32>
// CHECK: %[[ROWS:.+]] = tensor.expand_shape %[[FLAT]]
// CHECK: linalg.generic {{.*}} ins(%[[ROWS]] : tensor<1x1024xf32>)
// CHECK: %[[SQUARES:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<1xf32>) outs(%{{.+}} : tensor<f32>)
// CHECK: %[[TOTAL:.+]] = arith.addf %{{.+}}, %[[SQUARES]] : tensor<f32>
// CHECK: "dm.composite"(%{{.+}}, %[[TOTAL]]) {{.*}}kind = "sum_of_squares"
// CHECK-NOT: dm.composite
// CHECK: return
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %gv = math.tanh %v : tensor<4xf32>
  %gw = math.tanh %w : tensor<4xf32>
  %a = "dm.composite"(%gv, %zero) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %b = "dm.composite"(%gw, %a) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %c = "dm.composite"(%x, %b) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %new_v = "dm.composite"(%v, %gv, %c) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %new_w = "dm.composite"(%w, %gw, %c) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %new_v, %new_w : tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>, %norm: tensor<f32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sum_0(%x: tensor<4xf32>, %total: tensor<f32>) -> tensor<f32> {
  return %total : tensor<f32>
}

// -----

// Near miss: a composite of another kind writes nobody's memory.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) ->
// CHECK: "dm.composite"(%[[W]])
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<4xf32> {dm.name = "w"}) {
  %y = "dm.composite"(%w) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @gelu_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// One gradient for two parameters of two groups: it has two sums, and each group takes one of them. The third parameter
// has no sum of squares, so its group is no part of the total.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[FLAT_V:.+]] = "iree_tensor_ext.compute_barrier_start"(%{{.+}}) : (tensor<1024xf32>) -> tensor<1024xf32>
// CHECK: %[[FLAT_W:.+]] = "iree_tensor_ext.compute_barrier_start"(%{{.+}}) : (tensor<1024xf32>) -> tensor<1024xf32>
// CHECK: %[[FLAT_U:.+]] = "iree_tensor_ext.compute_barrier_start"(%{{.+}}) : (tensor<1024xf32>) -> tensor<1024xf32>
// CHECK: tensor.expand_shape %[[FLAT_V]]
// CHECK: %[[V:.+]] = arith.addf %[[ZERO]], %{{.+}} : tensor<f32>
// CHECK: tensor.expand_shape %[[FLAT_W]]
// CHECK: %[[V_AND_W:.+]] = arith.addf %[[V]], %{{.+}} : tensor<f32>
// CHECK-NOT: tensor.expand_shape %[[FLAT_U]]
// CHECK-NOT: sum_of_squares
// CHECK: linalg.generic {{.*}} ins(%[[FLAT_V]], %[[V_AND_W]] :
// CHECK: return
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %u: tensor<4xf32> {dm.name = "u", dm.role = "buffer"},
    %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "u"}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %g = math.tanh %x : tensor<4xf32>
  %a = "dm.composite"(%g, %zero) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %b = "dm.composite"(%g, %a) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %new_v = "dm.composite"(%v, %g, %b) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {decay = 0.1 : f64}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %new_w = "dm.composite"(%w, %g, %b) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {decay = 0.2 : f64}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %new_u = "dm.composite"(%u, %g, %b) {kind = "optimizer_update_keep", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %new_v, %new_w, %new_u : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>, %norm: tensor<f32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sum_0(%x: tensor<4xf32>, %total: tensor<f32>) -> tensor<f32> {
  return %total : tensor<f32>
}

// -----

// A parameter without elements has a place, but nothing is written there, and nothing read.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.members = {none = 0 : i64, w = 0 : i64}
// CHECK: tensor.insert_slice %{{.+}} into %{{.+}}[0] [1024] [1]
// CHECK-NOT: tensor.insert_slice {{.*}}tensor<0x
// CHECK: return
func.func @step(
    %w: tensor<1024xf32> {dm.name = "w", dm.role = "parameter"},
    %none: tensor<0x3xf32> {dm.name = "none", dm.role = "parameter"})
    -> (tensor<1024xf32> {dm.name = "w"}, tensor<0x3xf32> {dm.name = "none"}) {
  %g = math.tanh %w : tensor<1024xf32>
  %h = math.tanh %none : tensor<0x3xf32>
  %new_w = "dm.composite"(%w, %g) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %new_none = "dm.composite"(%none, %h) {kind = "optimizer_update_sgd", decomposition = @sgd_1, parameters = {}}
      : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<0x3xf32>
  return %new_w, %new_none : tensor<1024xf32>, tensor<0x3xf32>
}
func.func private @sgd_0(%w: tensor<1024xf32>, %g: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = arith.subf %w, %g : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
func.func private @sgd_1(%w: tensor<0x3xf32>, %g: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %0 = arith.subf %w, %g : tensor<0x3xf32>
  return %0 : tensor<0x3xf32>
}

// -----

// The old values are slices of parameters, as on a rank that updates its part of what every rank holds: they are
// gathered as gradients are, and the new ones taken apart again. The momenta are state, and have an arena.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[V:[^:]+]]: tensor<8xf32> {dm.name = "v", dm.role = "parameter"}
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}
// CHECK-SAME: %[[G:[^:]+]]: tensor<4xf32> {dm.name = "g", dm.role = "batch"}
// CHECK-SAME: %[[M:[^:]+]]: tensor<1024xf32> {dm.members = {v.m = 0 : i64, w.m = 64 : i64}, dm.name = "arena:0.m", dm.role = "arena"}
// CHECK-SAME: -> (tensor<8xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}, tensor<1024xf32> {dm.name = "arena:0.m"})
// CHECK: %[[SLICE_V:.+]] = tensor.extract_slice %[[V]][4] [4] [1]
// CHECK: %[[SLICE_W:.+]] = tensor.extract_slice %[[W]][2] [2] [1]
// CHECK: %[[GRADIENT:.+]] = "iree_tensor_ext.compute_barrier_start"
// CHECK: %[[OLD_V:.+]] = tensor.insert_slice %[[SLICE_V]] into %{{.+}}[0] [4] [1]
// CHECK: %[[OLD:.+]] = tensor.insert_slice %[[SLICE_W]] into %[[OLD_V]][64] [2] [1]
// CHECK: %[[NEW:.+]]:2 = linalg.generic {{.*}} ins(%[[GRADIENT]] : tensor<1024xf32>) outs(%[[OLD]], %[[M]] : tensor<1024xf32>, tensor<1024xf32>)
// CHECK: %[[IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[NEW]]#0)
// CHECK: %[[NEW_V:.+]] = tensor.extract_slice %[[IN_MEMORY]][0] [4] [1]
// CHECK: %[[NEW_W:.+]] = tensor.extract_slice %[[IN_MEMORY]][64] [2] [1]
// CHECK: %[[WHOLE_V:.+]] = tensor.concat dim(0) %[[NEW_V]], %[[NEW_V]]
// CHECK: %[[WHOLE_W:.+]] = tensor.concat dim(0) %[[NEW_W]], %[[NEW_W]]
// CHECK: return %[[WHOLE_V]], %[[WHOLE_W]], %[[NEW]]#1
func.func @step(
    %v: tensor<8xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
    %vm: tensor<4xf32> {dm.name = "v.m", dm.role = "optimizer"},
    %wm: tensor<2xf32> {dm.name = "w.m", dm.role = "optimizer"},
    %g: tensor<4xf32> {dm.name = "g", dm.role = "batch"})
    -> (tensor<8xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "v.m"},
        tensor<2xf32> {dm.name = "w.m"}) {
  %slice_v = tensor.extract_slice %v[4] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %slice_w = tensor.extract_slice %w[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %slice_g = tensor.extract_slice %g[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %new_v, %new_vm = "dm.composite"(%slice_v, %g, %vm)
      {kind = "optimizer_update_heavy", decomposition = @heavy_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %whole_v = tensor.concat dim(0) %new_v, %new_v : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %new_w, %new_wm = "dm.composite"(%slice_w, %slice_g, %wm)
      {kind = "optimizer_update_heavy", decomposition = @heavy_0, parameters = {}}
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %whole_w = tensor.concat dim(0) %new_w, %new_w : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %whole_v, %whole_w, %new_vm, %new_wm : tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
func.func private @heavy_0(%w: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %new_m = arith.addf %m, %g : tensor<4xf32>
  %new = arith.subf %w, %new_m : tensor<4xf32>
  return %new, %new_m : tensor<4xf32>, tensor<4xf32>
}

// -----

// Near miss: what stands between the two sums may count the first twice, so they stay two sums.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.+]] = "dm.composite"(%{{.+}}, %{{.+}}) {{.*}}kind = "sum_of_squares"
// CHECK: %[[TWICE:.+]] = arith.addf %[[A]], %[[A]]
// CHECK: "dm.composite"(%{{.+}}, %[[TWICE]]) {{.*}}kind = "sum_of_squares"
func.func @step(
    %v: tensor<4xf32> {dm.name = "v", dm.role = "parameter"},
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<4xf32> {dm.name = "v"}, tensor<4xf32> {dm.name = "w"}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %gv = math.tanh %v : tensor<4xf32>
  %gw = math.tanh %w : tensor<4xf32>
  %a = "dm.composite"(%gv, %zero) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %twice = arith.addf %a, %a : tensor<f32>
  %b = "dm.composite"(%gw, %twice) {kind = "sum_of_squares", decomposition = @sum_0, parameters = {}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %new_v = "dm.composite"(%v, %gv, %b) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %new_w = "dm.composite"(%w, %gw, %b) {kind = "optimizer_update_sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %new_v, %new_w : tensor<4xf32>, tensor<4xf32>
}
func.func private @sum_0(%x: tensor<4xf32>, %total: tensor<f32>) -> tensor<f32> {
  return %total : tensor<f32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %g: tensor<4xf32>, %scale: tensor<f32>) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}
