// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-merge-products' --split-input-file | %FileCheck %s


// The gradients side by side are the factor of two products: that with all weights, which is rounded once, instead of three
// terms of a sum, and that with the input, of which the gradients of the weights are rows. Sums for biases are one.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x16xbf16>, %[[R:[^:]+]]: tensor<8x16xf32>,
// CHECK: %[[G:.*]]:3 = "dm.composite"
// CHECK: %[[W:.*]] = tensor.concat dim(0)
// CHECK: %[[WEIGHTS:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<48x16xf32>) outs(%{{.*}} : tensor<48x16xbf16>)
// CHECK: %[[ALL:.*]] = tensor.concat dim(1) %[[G]]#0, %[[G]]#1, %[[G]]#2 : {{.*}} -> tensor<8x48xbf16>
// CHECK: %[[DX:.*]] = linalg.matmul ins(%[[ALL]], %[[WEIGHTS]] : tensor<8x48xbf16>, tensor<48x16xbf16>)
// CHECK: %[[ONCE:.*]] = linalg.generic {{.*}} ins(%[[DX]] : tensor<8x16xf32>) outs(%{{.*}} : tensor<8x16xbf16>)
// CHECK: %[[TERM:.*]] = linalg.generic {{.*}} ins(%[[ONCE]]
// CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[ALL]] : tensor<8x48xbf16>)
// CHECK: %[[DW:.*]] = linalg.matmul ins(%[[TURNED]], %[[X]] : tensor<48x8xbf16>, tensor<8x16xbf16>)
// CHECK: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[DW]]
// CHECK: %[[DQ:.*]] = tensor.extract_slice %[[ROUNDED]][0, 0] [16, 16] [1, 1]
// CHECK: %[[DK:.*]] = tensor.extract_slice %[[ROUNDED]][16, 0] [16, 16] [1, 1]
// CHECK: %[[DV:.*]] = tensor.extract_slice %[[ROUNDED]][32, 0] [16, 16] [1, 1]
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[ALL]] : tensor<8x48xbf16>)
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[WIDE]] : tensor<8x48xf32>) outs(%{{.*}} : tensor<1x48xf32>)
// CHECK: %[[BQ:.*]] = tensor.extract_slice %[[SUMS]][0, 0] [1, 16] [1, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[R]], %[[TERM]]
// CHECK-NOT: linalg.matmul
// CHECK: return %[[SUM]], %[[DQ]], %[[DK]], %[[DV]], %[[BQ]]
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %r: tensor<8x16xf32>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>)
    -> (tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:3 = "dm.composite"(%x, %x, %x) {kind = "attention_backward", decomposition = @attention_backward, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>)
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vd_e = tensor.empty() : tensor<8x16xf32>
  %vd_z = linalg.fill ins(%zero : f32) outs(%vd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vd = linalg.matmul ins(%g#2, %vn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vdn_e = tensor.empty() : tensor<8x16xbf16>
  %vdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vd : tensor<8x16xf32>) outs(%vdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vdw_e = tensor.empty() : tensor<8x16xf32>
  %vdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vdn : tensor<8x16xbf16>) outs(%vdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %vg_e = tensor.empty() : tensor<16x8xbf16>
  %vg = linalg.transpose ins(%g#2 : tensor<8x16xbf16>) outs(%vg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %vw_e = tensor.empty() : tensor<16x16xf32>
  %vw_z = linalg.fill ins(%zero : f32) outs(%vw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vw = linalg.matmul ins(%vg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%vw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vwn_e = tensor.empty() : tensor<16x16xbf16>
  %vwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vw : tensor<16x16xf32>) outs(%vwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vgw_e = tensor.empty() : tensor<8x16xf32>
  %vgw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%g#2 : tensor<8x16xbf16>) outs(%vgw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %vb_e = tensor.empty() : tensor<1x16xf32>
  %vb_z = linalg.fill ins(%zero : f32) outs(%vb_e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %vb = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction", "parallel"]}
      ins(%vgw : tensor<8x16xf32>) outs(%vb_z : tensor<1x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<1x16xf32>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kd_e = tensor.empty() : tensor<8x16xf32>
  %kd_z = linalg.fill ins(%zero : f32) outs(%kd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kd = linalg.matmul ins(%g#1, %kn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kdn_e = tensor.empty() : tensor<8x16xbf16>
  %kdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kd : tensor<8x16xf32>) outs(%kdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kdw_e = tensor.empty() : tensor<8x16xf32>
  %kdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kdn : tensor<8x16xbf16>) outs(%kdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %kg_e = tensor.empty() : tensor<16x8xbf16>
  %kg = linalg.transpose ins(%g#1 : tensor<8x16xbf16>) outs(%kg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %kw_e = tensor.empty() : tensor<16x16xf32>
  %kw_z = linalg.fill ins(%zero : f32) outs(%kw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kw = linalg.matmul ins(%kg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%kw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kwn_e = tensor.empty() : tensor<16x16xbf16>
  %kwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kw : tensor<16x16xf32>) outs(%kwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kgw_e = tensor.empty() : tensor<8x16xf32>
  %kgw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%g#1 : tensor<8x16xbf16>) outs(%kgw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %kb_e = tensor.empty() : tensor<1x16xf32>
  %kb_z = linalg.fill ins(%zero : f32) outs(%kb_e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %kb = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction", "parallel"]}
      ins(%kgw : tensor<8x16xf32>) outs(%kb_z : tensor<1x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<1x16xf32>
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qd_e = tensor.empty() : tensor<8x16xf32>
  %qd_z = linalg.fill ins(%zero : f32) outs(%qd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qd = linalg.matmul ins(%g#0, %qn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qdn_e = tensor.empty() : tensor<8x16xbf16>
  %qdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qd : tensor<8x16xf32>) outs(%qdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %qdw_e = tensor.empty() : tensor<8x16xf32>
  %qdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qdn : tensor<8x16xbf16>) outs(%qdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %qg_e = tensor.empty() : tensor<16x8xbf16>
  %qg = linalg.transpose ins(%g#0 : tensor<8x16xbf16>) outs(%qg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %qw_e = tensor.empty() : tensor<16x16xf32>
  %qw_z = linalg.fill ins(%zero : f32) outs(%qw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qw = linalg.matmul ins(%qg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%qw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qwn_e = tensor.empty() : tensor<16x16xbf16>
  %qwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qw : tensor<16x16xf32>) outs(%qwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qgw_e = tensor.empty() : tensor<8x16xf32>
  %qgw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%g#0 : tensor<8x16xbf16>) outs(%qgw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %qb_e = tensor.empty() : tensor<1x16xf32>
  %qb_z = linalg.fill ins(%zero : f32) outs(%qb_e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %qb = linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction", "parallel"]}
      ins(%qgw : tensor<8x16xf32>) outs(%qb_z : tensor<1x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<1x16xf32>
  %s1_e = tensor.empty() : tensor<8x16xf32>
  %s1 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%r, %vdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s1_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  %s2_e = tensor.empty() : tensor<8x16xf32>
  %s2 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s1, %kdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s2_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  %s3_e = tensor.empty() : tensor<8x16xf32>
  %s3 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s2, %qdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s3_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  return %s3, %qwn, %kwn, %vwn, %qb, %kb, %vb : tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>
}

// -----

// The gradient of the keys, which is read apart, would be copied; the others are merged.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.*]]:3 = "dm.composite"
// CHECK-NOT: tensor.concat dim(1)
// CHECK: tensor.concat dim(1) %[[G]]#0, %[[G]]#2
// CHECK-NOT: tensor.concat dim(1)
// CHECK: return
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %r: tensor<8x16xf32>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>)
    -> (tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<8x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %g:3 = "dm.composite"(%x, %x, %x) {kind = "attention_backward", decomposition = @attention_backward, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>)
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vd_e = tensor.empty() : tensor<8x16xf32>
  %vd_z = linalg.fill ins(%zero : f32) outs(%vd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vd = linalg.matmul ins(%g#2, %vn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vdn_e = tensor.empty() : tensor<8x16xbf16>
  %vdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vd : tensor<8x16xf32>) outs(%vdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vdw_e = tensor.empty() : tensor<8x16xf32>
  %vdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vdn : tensor<8x16xbf16>) outs(%vdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %vg_e = tensor.empty() : tensor<16x8xbf16>
  %vg = linalg.transpose ins(%g#2 : tensor<8x16xbf16>) outs(%vg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %vw_e = tensor.empty() : tensor<16x16xf32>
  %vw_z = linalg.fill ins(%zero : f32) outs(%vw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vw = linalg.matmul ins(%vg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%vw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vwn_e = tensor.empty() : tensor<16x16xbf16>
  %vwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vw : tensor<16x16xf32>) outs(%vwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kd_e = tensor.empty() : tensor<8x16xf32>
  %kd_z = linalg.fill ins(%zero : f32) outs(%kd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kd = linalg.matmul ins(%g#1, %kn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kdn_e = tensor.empty() : tensor<8x16xbf16>
  %kdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kd : tensor<8x16xf32>) outs(%kdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kdw_e = tensor.empty() : tensor<8x16xf32>
  %kdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kdn : tensor<8x16xbf16>) outs(%kdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %kg_e = tensor.empty() : tensor<16x8xbf16>
  %kg = linalg.transpose ins(%g#1 : tensor<8x16xbf16>) outs(%kg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %kw_e = tensor.empty() : tensor<16x16xf32>
  %kw_z = linalg.fill ins(%zero : f32) outs(%kw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kw = linalg.matmul ins(%kg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%kw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kwn_e = tensor.empty() : tensor<16x16xbf16>
  %kwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kw : tensor<16x16xf32>) outs(%kwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qd_e = tensor.empty() : tensor<8x16xf32>
  %qd_z = linalg.fill ins(%zero : f32) outs(%qd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qd = linalg.matmul ins(%g#0, %qn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qdn_e = tensor.empty() : tensor<8x16xbf16>
  %qdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qd : tensor<8x16xf32>) outs(%qdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %qdw_e = tensor.empty() : tensor<8x16xf32>
  %qdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qdn : tensor<8x16xbf16>) outs(%qdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %qg_e = tensor.empty() : tensor<16x8xbf16>
  %qg = linalg.transpose ins(%g#0 : tensor<8x16xbf16>) outs(%qg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %qw_e = tensor.empty() : tensor<16x16xf32>
  %qw_z = linalg.fill ins(%zero : f32) outs(%qw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qw = linalg.matmul ins(%qg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%qw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qwn_e = tensor.empty() : tensor<16x16xbf16>
  %qwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qw : tensor<16x16xf32>) outs(%qwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %s1_e = tensor.empty() : tensor<8x16xf32>
  %s1 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%r, %vdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s1_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  %s2_e = tensor.empty() : tensor<8x16xf32>
  %s2 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s1, %kdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s2_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  %s3_e = tensor.empty() : tensor<8x16xf32>
  %s3 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s2, %qdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s3_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  return %s3, %qwn, %kwn, %vwn, %g#1 : tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<8x16xbf16>
}

// -----

// The products are not added up.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.concat
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %r: tensor<8x16xf32>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>)
    -> (tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:3 = "dm.composite"(%x, %x, %x) {kind = "attention_backward", decomposition = @attention_backward, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>)
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vd_e = tensor.empty() : tensor<8x16xf32>
  %vd_z = linalg.fill ins(%zero : f32) outs(%vd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vd = linalg.matmul ins(%g#2, %vn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vdn_e = tensor.empty() : tensor<8x16xbf16>
  %vdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vd : tensor<8x16xf32>) outs(%vdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vdw_e = tensor.empty() : tensor<8x16xf32>
  %vdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vdn : tensor<8x16xbf16>) outs(%vdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %vg_e = tensor.empty() : tensor<16x8xbf16>
  %vg = linalg.transpose ins(%g#2 : tensor<8x16xbf16>) outs(%vg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %vw_e = tensor.empty() : tensor<16x16xf32>
  %vw_z = linalg.fill ins(%zero : f32) outs(%vw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vw = linalg.matmul ins(%vg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%vw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %vwn_e = tensor.empty() : tensor<16x16xbf16>
  %vwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vw : tensor<16x16xf32>) outs(%vwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kd_e = tensor.empty() : tensor<8x16xf32>
  %kd_z = linalg.fill ins(%zero : f32) outs(%kd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kd = linalg.matmul ins(%g#1, %kn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kdn_e = tensor.empty() : tensor<8x16xbf16>
  %kdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kd : tensor<8x16xf32>) outs(%kdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kdw_e = tensor.empty() : tensor<8x16xf32>
  %kdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kdn : tensor<8x16xbf16>) outs(%kdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %kg_e = tensor.empty() : tensor<16x8xbf16>
  %kg = linalg.transpose ins(%g#1 : tensor<8x16xbf16>) outs(%kg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %kw_e = tensor.empty() : tensor<16x16xf32>
  %kw_z = linalg.fill ins(%zero : f32) outs(%kw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kw = linalg.matmul ins(%kg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%kw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %kwn_e = tensor.empty() : tensor<16x16xbf16>
  %kwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kw : tensor<16x16xf32>) outs(%kwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qd_e = tensor.empty() : tensor<8x16xf32>
  %qd_z = linalg.fill ins(%zero : f32) outs(%qd_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qd = linalg.matmul ins(%g#0, %qn : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qd_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qdn_e = tensor.empty() : tensor<8x16xbf16>
  %qdn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qd : tensor<8x16xf32>) outs(%qdn_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %qdw_e = tensor.empty() : tensor<8x16xf32>
  %qdw = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qdn : tensor<8x16xbf16>) outs(%qdw_e : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %b = arith.extf %a : bf16 to f32
      linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %qg_e = tensor.empty() : tensor<16x8xbf16>
  %qg = linalg.transpose ins(%g#0 : tensor<8x16xbf16>) outs(%qg_e : tensor<16x8xbf16>) permutation = [1, 0]
  %qw_e = tensor.empty() : tensor<16x16xf32>
  %qw_z = linalg.fill ins(%zero : f32) outs(%qw_e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qw = linalg.matmul ins(%qg, %x : tensor<16x8xbf16>, tensor<8x16xbf16>) outs(%qw_z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %qwn_e = tensor.empty() : tensor<16x16xbf16>
  %qwn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qw : tensor<16x16xf32>) outs(%qwn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %s1_e = tensor.empty() : tensor<8x16xf32>
  %s1 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%r, %vdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s1_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  %s3_e = tensor.empty() : tensor<8x16xf32>
  %s3 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%s1, %qdw : tensor<8x16xf32>, tensor<8x16xf32>) outs(%s3_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<8x16xf32>
  return %s3, %qwn, %kwn, %vwn, %kdw : tensor<8x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<8x16xf32>
}
