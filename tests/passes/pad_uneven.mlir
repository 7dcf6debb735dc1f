// RUN: dmc-opt %s -p dm-pad-uneven --split-input-file | %FileCheck %s

#row = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>

"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// Columns of zeros are multiplied along; the result is cut, since an output has no padding.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x5xf32>, %[[W:[^:]+]]: tensor<5x8xf32>
// CHECK-SAME: dm.pads = [array<i64>, array<i64: 1, 7, 8>]
// CHECK: %[[Y:.+]] = linalg.matmul ins(%[[X]], %[[W]] : tensor<4x5xf32>, tensor<5x8xf32>) outs(%{{.+}} : tensor<4x8xf32>)
// CHECK: %[[CUT:.+]] = tensor.extract_slice %[[Y]][0, 0] [4, 7] [1, 1] : tensor<4x8xf32> to tensor<4x7xf32>
// CHECK: return %[[CUT]]
func.func @step(%x: tensor<4x5xf32>, %w: tensor<5x7xf32> {dm.name = "w", dm.role = "parameter",
                dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>, dm.pads = [array<i64>, array<i64: 1, 7, 8>]})
    -> (tensor<4x7xf32> {dm.name = "loss"}) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x7xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x7xf32>) -> tensor<4x7xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x5xf32>, tensor<5x7xf32>) outs(%1 : tensor<4x7xf32>) -> tensor<4x7xf32>
  return %y : tensor<4x7xf32>
}

// -----

#row = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>

"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// A sum of zeros needs no mask; one of exponentials reads zeros where the padding is.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4x8xf32>
// CHECK: %[[SUM:.+]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4x8xf32>)
// CHECK-NOT: arith.select
// CHECK: %[[EXP:.+]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4x8xf32>)
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} ins(%[[EXP]] : tensor<4x8xf32>)
// CHECK: %[[AT:.+]] = linalg.index 1
// CHECK: %[[END:.+]] = arith.constant 7 : index
// CHECK: %[[INSIDE:.+]] = arith.cmpi ult, %[[AT]], %[[END]]
// CHECK: %[[TERM:.+]] = arith.select %[[INSIDE]], %{{.+}}, %{{.+}} : f32
// CHECK: arith.addf %[[TERM]]
func.func @step(%w: tensor<4x7xf32> {dm.name = "w", dm.role = "parameter",
                dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>, dm.pads = [array<i64>, array<i64: 1, 7, 8>]})
    -> (tensor<4xf32> {dm.name = "loss"}, tensor<4xf32> {dm.name = "aux"}) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#row, #first], iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<4x7xf32>) outs(%1 : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<4xf32>
  %2 = tensor.empty() : tensor<4x7xf32>
  %exp = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<4x7xf32>) outs(%2 : tensor<4x7xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = math.exp %a : f32
      linalg.yield %b : f32
  } -> tensor<4x7xf32>
  %all = linalg.generic {indexing_maps = [#row, #first], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<4x7xf32>) outs(%1 : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %o : f32
      linalg.yield %b : f32
  } -> tensor<4xf32>
  return %sum, %all : tensor<4xf32>, tensor<4xf32>
}

// -----

#row = affine_map<(i, j) -> (i, j)>

"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// State leaves with zeros in its padding: what an operation writes there is masked, unless it is zero.
// Each of two blocks has its own padding.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<8xf32>
// CHECK: %[[NEW:.+]] = linalg.generic {{.*}} ins(%[[W]] : tensor<8xf32>) outs(%{{.+}} : tensor<8xf32>)
// CHECK: arith.addf
// CHECK: %[[ZEROED:.+]] = linalg.generic {{.*}} ins(%[[NEW]] : tensor<8xf32>)
// CHECK: %[[REST:.+]] = arith.remui %{{.+}}, %{{.+}} : index
// CHECK: arith.cmpi ult, %[[REST]]
// CHECK: arith.select
// CHECK: return %[[ZEROED]]
func.func @step(%w: tensor<6xf32> {dm.name = "w", dm.role = "parameter",
                dm.sharding = #dm.sharding<@mesh, [["2*tp"]], {}>, dm.pads = [array<i64: 2, 3, 4>]})
    -> (tensor<6xf32> {dm.name = "w"}) {
  %one = arith.constant 1.0 : f32
  %0 = tensor.empty() : tensor<6xf32>
  %new = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%w : tensor<6xf32>) outs(%0 : tensor<6xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.addf %a, %one : f32
      linalg.yield %b : f32
  } -> tensor<6xf32>
  return %new : tensor<6xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// Heads with padding stay apart from their elements; what needs the true size reads a slice.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4x16xf32>
// CHECK: %[[HEADS:.+]] = tensor.expand_shape %[[W]] {{\[\[}}0], [1, 2]] output_shape [4, 4, 4] : tensor<4x16xf32> into tensor<4x4x4xf32>
// CHECK: %[[ROWS:.+]] = tensor.collapse_shape %[[HEADS]] {{\[\[}}0, 1], [2]] : tensor<4x4x4xf32> into tensor<16x4xf32>
// CHECK: %[[BLOCKS:.+]] = tensor.expand_shape %[[ROWS]] {{\[\[}}0, 1], [2]] output_shape [4, 4, 4]
// CHECK: %[[TRUE:.+]] = tensor.extract_slice %[[BLOCKS]][0, 0, 0] [4, 3, 4] [1, 1, 1]
// CHECK: tensor.collapse_shape %[[TRUE]] {{\[\[}}0, 1], [2]] : tensor<4x3x4xf32> into tensor<12x4xf32>
func.func @step(%w: tensor<4x12xf32> {dm.name = "w", dm.role = "parameter",
                dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>, dm.pads = [array<i64>, array<i64: 1, 12, 16>]})
    -> (tensor<12x4xf32> {dm.name = "loss"}) {
  %heads = tensor.expand_shape %w [[0], [1, 2]] output_shape [4, 3, 4] : tensor<4x12xf32> into tensor<4x3x4xf32>
  %rows = tensor.collapse_shape %heads [[0, 1], [2]] : tensor<4x3x4xf32> into tensor<12x4xf32>
  return %rows : tensor<12x4xf32>
}

// -----

// Without a mesh, or padding, nothing changes.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<7xf32>)
// CHECK-NEXT: return %[[X]]
func.func @step(%x: tensor<7xf32>) -> tensor<7xf32> {
  return %x : tensor<7xf32>
}
