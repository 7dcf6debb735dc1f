// RUN: dmc-opt %s -p dm-narrow-collectives --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-narrow-collectives{most_ranks=3}' --split-input-file | %FileCheck %s --check-prefix=FEW

#row = affine_map<(i, j) -> (i, j)>

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// A gradient is summed as narrow as it was computed; over more ranks, as it is read.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x6144xbf16>)
// CHECK: %[[S:.+]] = "dm.reduce_scatter"(%[[X]]) {accumulate = f32, dim = 0 : i64, dm.tensor = "w", {{.*}} : (tensor<8x6144xbf16>) -> tensor<2x6144xbf16>
// CHECK: %[[W:.+]] = linalg.generic {{.*}} ins(%[[S]] : tensor<2x6144xbf16>) outs(%{{.*}} : tensor<2x6144xf32>)
// CHECK: arith.extf
// CHECK: return %[[W]]
// FEW-LABEL: func.func @sum
// FEW: arith.extf
// FEW: (tensor<8x6144xf32>) -> tensor<2x6144xf32>
func.func @sum(%x: tensor<8x6144xbf16>) -> tensor<2x6144xf32> {
  %0 = tensor.empty() : tensor<8x6144xf32>
  %w = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x6144xbf16>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x6144xf32>
  %y = "dm.reduce_scatter"(%w) {dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "w",
      group = #dm.group<@mesh, ["dp"]>} : (tensor<8x6144xf32>) -> tensor<2x6144xf32>
  return %y : tensor<2x6144xf32>
}

// A weight is narrowed before it is gathered, by any number of ranks, and what is only moved may be widened later.
// CHECK-LABEL: func.func @moved
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2x6144xf32>, %[[Y:[^:]+]]: tensor<2x6144xbf16>)
// CHECK: %[[N:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<2x6144xf32>) outs(%{{.*}} : tensor<2x6144xbf16>)
// CHECK: %[[G:.+]] = "dm.all_gather"(%[[N]]) {{.*}} : (tensor<2x6144xbf16>) -> tensor<8x6144xbf16>
// CHECK: %[[H:.+]] = "dm.all_gather"(%[[Y]]) {{.*}} : (tensor<2x6144xbf16>) -> tensor<8x6144xbf16>
// CHECK: %[[W:.+]] = linalg.generic {{.*}} ins(%[[H]] : tensor<8x6144xbf16>) outs(%{{.*}} : tensor<8x6144xf32>)
// CHECK: return %[[G]], %[[W]]
// FEW-LABEL: func.func @moved
// FEW-COUNT-2: (tensor<2x6144xbf16>) -> tensor<8x6144xbf16>
func.func @moved(%x: tensor<2x6144xf32>, %y: tensor<2x6144xbf16>) -> (tensor<8x6144xbf16>, tensor<8x6144xf32>) {
  %g = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x6144xf32>) -> tensor<8x6144xf32>
  %0 = tensor.empty() : tensor<8x6144xbf16>
  %n = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%g : tensor<8x6144xf32>) outs(%0 : tensor<8x6144xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x6144xbf16>
  %1 = tensor.empty() : tensor<2x6144xf32>
  %w = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<2x6144xbf16>) outs(%1 : tensor<2x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<2x6144xf32>
  %h = "dm.all_gather"(%w) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x6144xf32>) -> tensor<8x6144xf32>
  return %n, %h : tensor<8x6144xbf16>, tensor<8x6144xf32>
}

// Near miss: a bias.
// CHECK-LABEL: func.func @small
// CHECK: dm.all_reduce{{.*}} (tensor<768xf32>) -> tensor<768xf32>
func.func @small(%x: tensor<768xbf16>) -> tensor<768xf32> {
  %0 = tensor.empty() : tensor<768xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<768xbf16>) outs(%0 : tensor<768xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<768xf32>
  %y = "dm.all_reduce"(%w) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<768xf32>) -> tensor<768xf32>
  return %y : tensor<768xf32>
}

// Near misses: a wide sum is rounded once, behind; a gathered weight is also read as it is; a product is not a cast.
// CHECK-LABEL: func.func @wide
// CHECK: dm.all_reduce{{.*}} (tensor<8x6144xf32>) -> tensor<8x6144xf32>
// CHECK: dm.all_gather{{.*}} (tensor<2x6144xf32>) -> tensor<8x6144xf32>
// CHECK: dm.all_reduce{{.*}} (tensor<8x6144xf32>) -> tensor<8x6144xf32>
func.func @wide(%x: tensor<8x6144xf32>, %y: tensor<2x6144xf32>, %z: tensor<8x6144xbf16>)
    -> (tensor<8x6144xbf16>, tensor<8x6144xbf16>, tensor<8x6144xf32>, tensor<8x6144xf32>) {
  %s = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<8x6144xf32>) -> tensor<8x6144xf32>
  %g = "dm.all_gather"(%y) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x6144xf32>) -> tensor<8x6144xf32>
  %0 = tensor.empty() : tensor<8x6144xbf16>
  %n = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<8x6144xf32>) outs(%0 : tensor<8x6144xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x6144xbf16>
  %m = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%g : tensor<8x6144xf32>) outs(%0 : tensor<8x6144xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x6144xbf16>
  %1 = tensor.empty() : tensor<8x6144xf32>
  %w = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%z : tensor<8x6144xbf16>) outs(%1 : tensor<8x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      %c = arith.mulf %b, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x6144xf32>
  %t = "dm.all_reduce"(%w) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
      : (tensor<8x6144xf32>) -> tensor<8x6144xf32>
  return %n, %m, %g, %t : tensor<8x6144xbf16>, tensor<8x6144xbf16>, tensor<8x6144xf32>, tensor<8x6144xf32>
}

// -----

#row = affine_map<(i, j) -> (i, j)>

"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// What two narrow products add to is rounded as narrow before it is moved; over more ranks it is not.
// CHECK-LABEL: func.func @sum_of_widened
// CHECK: arith.addf
// CHECK: arith.truncf
// CHECK: "dm.all_reduce"(%{{.+}}) {{.*}} : (tensor<8x6144xbf16>) -> tensor<8x6144xbf16>
// CHECK: arith.extf
// FEW-LABEL: func.func @sum_of_widened
// FEW-NOT: arith.truncf
// FEW: (tensor<8x6144xf32>) -> tensor<8x6144xf32>
func.func @sum_of_widened(%x: tensor<8x6144xbf16>, %y: tensor<8x6144xbf16>) -> tensor<8x6144xf32> {
  %0 = tensor.empty() : tensor<8x6144xf32>
  %v = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x6144xbf16>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x6144xf32>
  %w = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<8x6144xbf16>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x6144xf32>
  %s = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v, %w : tensor<8x6144xf32>, tensor<8x6144xf32>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x6144xf32>
  %z = "dm.all_reduce"(%s) {reduction = #dm.reduction<"sum">, accumulate = f32,
      group = #dm.group<@mesh, ["tp"]>} : (tensor<8x6144xf32>) -> tensor<8x6144xf32>
  return %z : tensor<8x6144xf32>
}

// A sum with a wide summand stays wide.
// CHECK-LABEL: func.func @sum_with_wide
// CHECK-NOT: arith.truncf
// CHECK: (tensor<8x6144xf32>) -> tensor<8x6144xf32>
func.func @sum_with_wide(%x: tensor<8x6144xbf16>, %y: tensor<8x6144xf32>) -> tensor<8x6144xf32> {
  %0 = tensor.empty() : tensor<8x6144xf32>
  %v = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x6144xbf16>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x6144xf32>
  %s = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v, %y : tensor<8x6144xf32>, tensor<8x6144xf32>) outs(%0 : tensor<8x6144xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x6144xf32>
  %z = "dm.all_reduce"(%s) {reduction = #dm.reduction<"sum">, accumulate = f32,
      group = #dm.group<@mesh, ["tp"]>} : (tensor<8x6144xf32>) -> tensor<8x6144xf32>
  return %z : tensor<8x6144xf32>
}
