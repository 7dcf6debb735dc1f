// RUN: dmc-opt --allow-undefined-symbols %s -p 'dm-merge-products' --split-input-file | %FileCheck %s


// Weights side by side are cast at once, and so are biases; the attention reads columns of one product. Weights may have
// different sizes. Who reads a cast weight besides, as gradients do, reads rows of all.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8x16xbf16>, %[[Q:[^:]+]]: tensor<16x16xf32>, %[[K:[^:]+]]: tensor<16x16xf32>, %[[V:[^:]+]]: tensor<16x16xf32>, %[[BQ:[^:]+]]: tensor<16xf32>, %[[BK:[^:]+]]: tensor<16xf32>, %[[BV:[^:]+]]: tensor<16xf32>)
// CHECK: %[[WEIGHTS:.*]] = tensor.concat dim(0) %[[Q]], %[[K]], %[[V]] : {{.*}} -> tensor<48x16xf32>
// CHECK: %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[WEIGHTS]] : tensor<48x16xf32>)
// CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[NARROW]] : tensor<48x16xbf16>)
// CHECK: %[[PRODUCT:.*]] = linalg.matmul ins(%[[X]], %[[TURNED]] : tensor<8x16xbf16>, tensor<16x48xbf16>)
// CHECK: %[[BIASES:.*]] = tensor.concat dim(0) %[[BQ]], %[[BK]], %[[BV]] : {{.*}} -> tensor<48xf32>
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]], %[[BIASES]]
// CHECK: %[[ALL:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<8x48xf32>)
// CHECK: %[[R0:.*]] = tensor.extract_slice %[[ALL]][0, 0] [8, 16] [1, 1]
// CHECK: %[[R1:.*]] = tensor.extract_slice %[[ALL]][0, 16] [8, 16] [1, 1]
// CHECK: %[[R2:.*]] = tensor.extract_slice %[[ALL]][0, 32] [8, 16] [1, 1]
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %[[NARROW]][16, 0] [16, 16] [1, 1]
// CHECK-NOT: linalg.matmul
// CHECK: %[[Y:.*]] = "dm.composite"(%[[R0]], %[[R1]], %[[R2]])
// CHECK: return %[[Y]], %[[ROWS]]
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>,
    %bq: tensor<16xf32>, %bk: tensor<16xf32>, %bv: tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<16x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qt_e = tensor.empty() : tensor<16x16xbf16>
  %qt = linalg.transpose ins(%qn : tensor<16x16xbf16>) outs(%qt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%x, %qt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qs_e = tensor.empty() : tensor<8x16xf32>
  %qs = linalg.generic {indexing_maps = [#row, #bias, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp, %bq : tensor<8x16xf32>, tensor<16xf32>) outs(%qs_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.addf %a, %c : f32
      linalg.yield %d : f32
  } -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qs : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xbf16>
  %kt = linalg.transpose ins(%kn : tensor<16x16xbf16>) outs(%kt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %ks_e = tensor.empty() : tensor<8x16xf32>
  %ks = linalg.generic {indexing_maps = [#row, #bias, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp, %bk : tensor<8x16xf32>, tensor<16xf32>) outs(%ks_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.addf %a, %c : f32
      linalg.yield %d : f32
  } -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%ks : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xbf16>
  %vt = linalg.transpose ins(%vn : tensor<16x16xbf16>) outs(%vt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vs_e = tensor.empty() : tensor<8x16xf32>
  %vs = linalg.generic {indexing_maps = [#row, #bias, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp, %bv : tensor<8x16xf32>, tensor<16xf32>) outs(%vs_e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.addf %a, %c : f32
      linalg.yield %d : f32
  } -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vs : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y, %kn : tensor<8x16xbf16>, tensor<16x16xbf16>
}

// -----

// Each product has a left factor of its own but keys and values.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {{.*}} tensor<16x16xbf16>)
// CHECK: linalg.matmul {{.*}} tensor<16x32xbf16>)
// CHECK-NOT: linalg.matmul
// CHECK: return
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %z: tensor<8x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>)
    -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qt_e = tensor.empty() : tensor<16x16xbf16>
  %qt = linalg.transpose ins(%qn : tensor<16x16xbf16>) outs(%qt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%z, %qt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xbf16>
  %kt = linalg.transpose ins(%kn : tensor<16x16xbf16>) outs(%kt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xbf16>
  %vt = linalg.transpose ins(%vn : tensor<16x16xbf16>) outs(%vt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y, %z : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// -----

// A part of the keys' product would be copied for whoever else reads it.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.concat
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %z: tensor<8x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>)
    -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %zero = arith.constant 0.0 : f32
  %qn_e = tensor.empty() : tensor<16x16xbf16>
  %qn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x16xf32>) outs(%qn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %qt_e = tensor.empty() : tensor<16x16xbf16>
  %qt = linalg.transpose ins(%qn : tensor<16x16xbf16>) outs(%qt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%x, %qt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kn_e = tensor.empty() : tensor<16x16xbf16>
  %kn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<16x16xf32>) outs(%kn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xbf16>
  %kt = linalg.transpose ins(%kn : tensor<16x16xbf16>) outs(%kt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vn_e = tensor.empty() : tensor<16x16xbf16>
  %vn = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<16x16xf32>) outs(%vn_e : tensor<16x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<16x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xbf16>
  %vt = linalg.transpose ins(%vn : tensor<16x16xbf16>) outs(%vt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y, %kr : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// -----

// Weights that are not cast would be copied.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.concat
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
func.func @step(%x: tensor<8x16xbf16>, %q: tensor<16x16xbf16>, %k: tensor<16x16xbf16>, %v: tensor<16x16xbf16>) -> tensor<8x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %qt_e = tensor.empty() : tensor<16x16xbf16>
  %qt = linalg.transpose ins(%q : tensor<16x16xbf16>) outs(%qt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%x, %qt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xbf16>
  %kt = linalg.transpose ins(%k : tensor<16x16xbf16>) outs(%kt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xbf16>
  %vt = linalg.transpose ins(%v : tensor<16x16xbf16>) outs(%vt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y : tensor<8x16xbf16>
}

// -----

// Gathered weights are copied, if they are narrow.
// CHECK-LABEL: func.func @step
// CHECK: %[[Q:.*]] = "dm.all_gather"(%arg1)
// CHECK: %[[K:.*]] = "dm.all_gather"(%arg2)
// CHECK: %[[V:.*]] = "dm.all_gather"(%arg3)
// CHECK: tensor.concat dim(0) %[[Q]], %[[K]], %[[V]] : {{.*}} -> tensor<48x16xbf16>
// CHECK: linalg.matmul {{.*}} tensor<16x48xbf16>)
// CHECK-NOT: linalg.matmul
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x16xbf16>, %qp_: tensor<8x16xbf16>, %kp_: tensor<8x16xbf16>, %vp_: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
  %q = "dm.all_gather"(%qp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xbf16>) -> tensor<16x16xbf16>
  %k = "dm.all_gather"(%kp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xbf16>) -> tensor<16x16xbf16>
  %v = "dm.all_gather"(%vp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xbf16>) -> tensor<16x16xbf16>
  %zero = arith.constant 0.0 : f32
  %qt_e = tensor.empty() : tensor<16x16xbf16>
  %qt = linalg.transpose ins(%q : tensor<16x16xbf16>) outs(%qt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%x, %qt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xbf16>
  %kt = linalg.transpose ins(%k : tensor<16x16xbf16>) outs(%kt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xbf16>
  %vt = linalg.transpose ins(%v : tensor<16x16xbf16>) outs(%vt_e : tensor<16x16xbf16>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xbf16>, tensor<16x16xbf16>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y : tensor<8x16xbf16>
}

// -----

// Wide ones are not.
// CHECK-LABEL: func.func @step
// CHECK-NOT: tensor.concat
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (0, j)>
#bias = affine_map<(i, j) -> (j)>
#vector = affine_map<(i) -> (i)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x16xf32>, %qp_: tensor<8x16xf32>, %kp_: tensor<8x16xf32>, %vp_: tensor<8x16xf32>) -> tensor<8x16xbf16> {
  %q = "dm.all_gather"(%qp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xf32>) -> tensor<16x16xf32>
  %k = "dm.all_gather"(%kp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xf32>) -> tensor<16x16xf32>
  %v = "dm.all_gather"(%vp_) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<8x16xf32>) -> tensor<16x16xf32>
  %zero = arith.constant 0.0 : f32
  %qt_e = tensor.empty() : tensor<16x16xf32>
  %qt = linalg.transpose ins(%q : tensor<16x16xf32>) outs(%qt_e : tensor<16x16xf32>) permutation = [1, 0]
  %qp_e = tensor.empty() : tensor<8x16xf32>
  %qp_z = linalg.fill ins(%zero : f32) outs(%qp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qp = linalg.matmul ins(%x, %qt : tensor<8x16xf32>, tensor<16x16xf32>) outs(%qp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %qr_e = tensor.empty() : tensor<8x16xbf16>
  %qr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%qp : tensor<8x16xf32>) outs(%qr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %kt_e = tensor.empty() : tensor<16x16xf32>
  %kt = linalg.transpose ins(%k : tensor<16x16xf32>) outs(%kt_e : tensor<16x16xf32>) permutation = [1, 0]
  %kp_e = tensor.empty() : tensor<8x16xf32>
  %kp_z = linalg.fill ins(%zero : f32) outs(%kp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kp = linalg.matmul ins(%x, %kt : tensor<8x16xf32>, tensor<16x16xf32>) outs(%kp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %kr_e = tensor.empty() : tensor<8x16xbf16>
  %kr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%kp : tensor<8x16xf32>) outs(%kr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %vt_e = tensor.empty() : tensor<16x16xf32>
  %vt = linalg.transpose ins(%v : tensor<16x16xf32>) outs(%vt_e : tensor<16x16xf32>) permutation = [1, 0]
  %vp_e = tensor.empty() : tensor<8x16xf32>
  %vp_z = linalg.fill ins(%zero : f32) outs(%vp_e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vp = linalg.matmul ins(%x, %vt : tensor<8x16xf32>, tensor<16x16xf32>) outs(%vp_z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %vr_e = tensor.empty() : tensor<8x16xbf16>
  %vr = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%vp : tensor<8x16xf32>) outs(%vr_e : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<8x16xbf16>
  %y = "dm.composite"(%qr, %kr, %vr) {kind = "attention", decomposition = @attention, parameters = {}}
      : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  return %y : tensor<8x16xbf16>
}
