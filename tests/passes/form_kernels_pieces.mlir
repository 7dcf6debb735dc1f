// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// To dmc's kernels, slices and concatenations are indices: halves that change places are no copies. IREE reads a slice
// where a loop needs it, and copies the rest.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: {{[^%]+}}, %[[W:[^:]+]]:
// CHECK-NEXT: %[[Y:.+]] = "dm.kernel"(%[[X]], %[[W]])
// CHECK-NEXT: return %[[Y]]
// CPU-LABEL: func.func @step
// CPU-COUNT-4: "dm.kernel"
// CPU-NOT: "dm.kernel"
// CPU: return
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4x8xf32> {dm.name = "x"}, %w: tensor<4x8xf32> {dm.name = "w"}) -> (tensor<4x8xf32> {dm.name = "y"}) {
  %low = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %high = tensor.extract_slice %x[0, 4] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %minus = arith.negf %high : tensor<4x4xf32>
  %turned = tensor.concat dim(1) %minus, %low : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %y = arith.mulf %turned, %w : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// Of many parts each element would compute all.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: "dm.kernel"
// CHECK-NOT: "dm.kernel"
// CHECK: return
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4x8xf32> {dm.name = "x"}) -> (tensor<4x40xf32> {dm.name = "y"}) {
  %e = math.exp %x : tensor<4x8xf32>
  %y = tensor.concat dim(1) %e, %x, %e, %x, %e
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x40xf32>
  return %y : tensor<4x40xf32>
}
}

// -----

// A product reads a factor that is transposed and widened on its way where it is.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: {{[^%]+}}, %[[W:[^:]+]]:
// CHECK-NEXT: %[[Y:.+]] = "dm.kernel"(%[[X]], %[[W]]) {body = @matmul_0
// CHECK-NEXT: return %[[Y]]
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
#each = affine_map<(i, j) -> (i, j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x32xf32> {dm.name = "x"}, %w: tensor<16x32xbf16> {dm.name = "w"}) -> (tensor<64x16xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %a = tensor.empty() : tensor<32x16xbf16>
  %b = tensor.empty() : tensor<32x16xf32>
  %c = tensor.empty() : tensor<64x16xf32>
  %turned = linalg.transpose ins(%w : tensor<16x32xbf16>) outs(%a : tensor<32x16xbf16>) permutation = [1, 0]
  %wide = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel"]}
      ins(%turned : tensor<32x16xbf16>) outs(%b : tensor<32x16xf32>) {
    ^bb0(%in: bf16, %o: f32):
      %0 = arith.extf %in : bf16 to f32
      linalg.yield %0 : f32
  } -> tensor<32x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%c : tensor<64x16xf32>) -> tensor<64x16xf32>
  %y = linalg.matmul ins(%x, %wide : tensor<64x32xf32>, tensor<32x16xf32>) outs(%start : tensor<64x16xf32>) -> tensor<64x16xf32>
  return %y : tensor<64x16xf32>
}
}
