// RUN: dmc-opt %s -p "dm-gather-again{min_bytes=64 near=0 ahead_bytes=1}" --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-gather-again{min_bytes=4096}" --split-input-file | %FileCheck %s --check-prefix=SMALL

// A weight that the plan frees is gathered for each pass, for the backward pass also seen again; each stands before the
// reader of the gather before it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[V:[^:]+]]: tensor<4x8xf32>
// CHECK: %[[W1:.+]] = "dm.all_gather"(%[[W]]) {dim = 0 : i64, dm.in_time = 0 : i64
// CHECK: %[[V1:.+]] = "dm.all_gather"(%[[V]]) {dim = 0 : i64, dm.in_time = 1 : i64
// CHECK: %[[A:.+]] = linalg.matmul ins(%{{.+}}, %[[W1]]
// CHECK: %[[B:.+]] = linalg.matmul ins(%[[A]], %[[V1]]
// CHECK: %[[V2:.+]] = "dm.all_gather"(%[[V]]) {dim = 0 : i64, dm.in_time = 2 : i64
// CHECK: %[[W2:.+]] = "dm.all_gather"(%[[W]]) {dim = 0 : i64, dm.in_time = 3 : i64
// CHECK: %[[VT:.+]] = linalg.transpose ins(%[[V2]]
// CHECK: %[[C:.+]] = linalg.matmul ins(%[[B]], %[[VT]]
// CHECK: %[[WT:.+]] = linalg.transpose ins(%[[W2]]
// CHECK: linalg.matmul ins(%[[C]], %[[WT]]
// SMALL-LABEL: func.func @step
// SMALL-COUNT-2: dm.all_gather
// SMALL-NOT: dm.all_gather
// SMALL: return
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x8xf32> {dm.name = "w", dm.freed}, %v: tensor<4x8xf32> {dm.name = "v", dm.freed}, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tensor.empty() : tensor<8x8xf32>
  %wg = "dm.all_gather"(%w) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32> loc("mlp#w")
  %vg = "dm.all_gather"(%v) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32> loc("mlp#v")
  %a = linalg.matmul ins(%x, %wg : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  %b = linalg.matmul ins(%a, %vg : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  %vt = linalg.transpose ins(%vg : tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) permutation = [1, 0] loc("mlp#t")
  %c = linalg.matmul ins(%b, %vt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm, backward")
  %wt = linalg.transpose ins(%wg : tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) permutation = [1, 0] loc("mlp#t")
  %d = linalg.matmul ins(%c, %wt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm, backward")
  return %d : tensor<8x8xf32>
}

// -----

// Near misses: a weight that the plan keeps is gathered once; an activation is gathered again, but not moved in its first
// pass.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4x8xf32>
// CHECK: "dm.all_gather"(%[[W]]) {dim = 0 : i64, group
// CHECK-NOT: "dm.all_gather"(%[[W]])
// CHECK: %[[H:.+]] = math.exp
// CHECK: %[[G:.+]] = "dm.all_gather"(%[[H]]) {dim = 0 : i64, group
// CHECK: linalg.matmul ins(%[[G]],
// CHECK: linalg.matmul
// CHECK: %[[G2:.+]] = "dm.all_gather"(%[[H]]) {dim = 0 : i64, dm.in_time
// CHECK: linalg.matmul ins(%[[G2]],
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x8xf32> {dm.name = "w"}, %x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = tensor.empty() : tensor<8x8xf32>
  %wg = "dm.all_gather"(%w) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %h = math.exp %x : tensor<4x8xf32>
  %g = "dm.all_gather"(%h) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %a = linalg.matmul ins(%g, %wg : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  %b = linalg.matmul ins(%a, %wg : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm, backward")
  %c = linalg.matmul ins(%g, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm, backward")
  return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A reader of two gathered values reads both in time; a view that it shares with an earlier reader stands before that.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[V:[^:]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[W:[^:]+]]: tensor<4x8xf32>
// CHECK-DAG: %[[VG:.+]] = "dm.all_gather"(%[[V]]) {dim = 0 : i64, dm.in_time
// CHECK-DAG: %[[WG:.+]] = "dm.all_gather"(%[[W]]) {dim = 0 : i64, dm.in_time
// CHECK: %[[A:.+]] = linalg.matmul ins(%{{.+}}, %[[VG]]
// CHECK: %[[WT:.+]] = linalg.transpose ins(%[[WG]]
// CHECK: %[[B:.+]] = linalg.matmul ins(%[[A]], %[[WT]]
// CHECK: linalg.matmul ins(%[[VG]], %[[WT]]
// CHECK-NOT: dm.all_gather
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%v: tensor<4x8xf32> {dm.name = "v", dm.freed}, %w: tensor<4x8xf32> {dm.name = "w", dm.freed}, %x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = tensor.empty() : tensor<8x8xf32>
  %vg = "dm.all_gather"(%v) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32> loc("mlp#v")
  %wg = "dm.all_gather"(%w) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<8x8xf32> loc("mlp#w")
  %wt = linalg.transpose ins(%wg : tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) permutation = [1, 0] loc("mlp#t")
  %a = linalg.matmul ins(%x, %vg : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  %b = linalg.matmul ins(%a, %wt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  %c = linalg.matmul ins(%vg, %wt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp#mm")
  return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
}
