// RUN: dmc-opt %s -p dm-share-panels --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p dm-share-panels,dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=KERNELS


// A matrix that lies as the products read it: four panels of 16 columns.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]:
// CHECK: %[[CUT:.+]] = tensor.expand_shape %[[W]] {{\[\[}}0], [1, 2]] output_shape [8, 4, 16]
// CHECK: %[[PANELS:.+]] = linalg.transpose ins(%[[CUT]] : tensor<8x4x16xf32>) {{.+}} permutation = [1, 0, 2]
// CHECK: %[[IN_MEMORY:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[PANELS]])
// CHECK: %[[ROWS:.+]] = linalg.transpose ins(%[[IN_MEMORY]] : tensor<4x8x16xf32>) {{.+}} permutation = [1, 0, 2]
// CHECK: %[[MATRIX:.+]] = tensor.collapse_shape %[[ROWS]] {{\[\[}}0], [1, 2]] : tensor<8x4x16xf32> into tensor<8x64xf32>
// CHECK-COUNT-4: linalg.matmul ins(%{{.+}}, %[[MATRIX]] : tensor<16x8xf32>, tensor<8x64xf32>)
// KERNELS-LABEL: func.func @step
// KERNELS-SAME: (%[[W:[^:]+]]:
// KERNELS: %[[PANELS:.+]] = "dm.kernel"(%{{.+}}) {body = @transpose_0,
// KERNELS-COUNT-4: "dm.kernel"(%{{[^,]+}}, %[[PANELS]]) {body = @matmul_0,
// KERNELS-NOT: "dm.kernel"
// KERNELS: return
// KERNELS: func.func private @matmul_0(%{{.+}}: tensor<16x8xf32>, %[[P:.+]]: tensor<4x8x16xf32>)
// KERNELS: linalg.transpose ins(%[[P]] : tensor<4x8x16xf32>)
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x64xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"}, %x3: tensor<16x8xf32> {dm.name = "x3"})
    -> (tensor<16x64xf32> {dm.name = "y0"}, tensor<16x64xf32> {dm.name = "y1"}, tensor<16x64xf32> {dm.name = "y2"}, tensor<16x64xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y3 = linalg.matmul ins(%x3, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
}

// -----

// One that they read transposed goes into panels at once.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]:
// CHECK: %[[CUT:.+]] = tensor.expand_shape %[[W]] {{\[\[}}0, 1], [2]] output_shape [4, 16, 8]
// CHECK: %[[PANELS:.+]] = linalg.transpose ins(%[[CUT]] : tensor<4x16x8xf32>) {{.+}} permutation = [0, 2, 1]
// CHECK: "iree_tensor_ext.compute_barrier_start"(%[[PANELS]])
// KERNELS-LABEL: func.func @step
// KERNELS-COUNT-5: "dm.kernel"
// KERNELS-NOT: "dm.kernel"
// KERNELS: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<64x8xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"}, %x3: tensor<16x8xf32> {dm.name = "x3"})
    -> (tensor<16x64xf32> {dm.name = "y0"}, tensor<16x64xf32> {dm.name = "y1"}, tensor<16x64xf32> {dm.name = "y2"}, tensor<16x64xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %turned = tensor.empty() : tensor<8x64xf32>
  %t = linalg.transpose ins(%w : tensor<64x8xf32>) outs(%turned : tensor<8x64xf32>) permutation = [1, 0]
  %y0 = linalg.matmul ins(%x0, %t : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y1 = linalg.matmul ins(%x1, %t : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y2 = linalg.matmul ins(%x2, %t : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y3 = linalg.matmul ins(%x3, %t : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
}

// -----

// What stays: three products.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x64xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"})
    -> (tensor<16x64xf32> {dm.name = "y0"}, tensor<16x64xf32> {dm.name = "y1"}, tensor<16x64xf32> {dm.name = "y2"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8xf32>, tensor<8x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %y0, %y1, %y2 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
}

// -----

// Many rows: each product makes panels of its own.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x64xf32> {dm.name = "w"}, %x0: tensor<64x8xf32> {dm.name = "x0"}, %x1: tensor<64x8xf32> {dm.name = "x1"}, %x2: tensor<64x8xf32> {dm.name = "x2"}, %x3: tensor<64x8xf32> {dm.name = "x3"})
    -> (tensor<64x64xf32> {dm.name = "y0"}, tensor<64x64xf32> {dm.name = "y1"}, tensor<64x64xf32> {dm.name = "y2"}, tensor<64x64xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<64x8xf32>, tensor<8x64xf32>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<64x8xf32>, tensor<8x64xf32>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<64x8xf32>, tensor<8x64xf32>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y3 = linalg.matmul ins(%x3, %w : tensor<64x8xf32>, tensor<8x64xf32>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y0, %y1, %y2, %y3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
}

// -----

// Columns that fill no panel.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x72xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"}, %x3: tensor<16x8xf32> {dm.name = "x3"})
    -> (tensor<16x72xf32> {dm.name = "y0"}, tensor<16x72xf32> {dm.name = "y1"}, tensor<16x72xf32> {dm.name = "y2"}, tensor<16x72xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x72xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x72xf32>) -> tensor<16x72xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8xf32>, tensor<8x72xf32>) outs(%start : tensor<16x72xf32>) -> tensor<16x72xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8xf32>, tensor<8x72xf32>) outs(%start : tensor<16x72xf32>) -> tensor<16x72xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8xf32>, tensor<8x72xf32>) outs(%start : tensor<16x72xf32>) -> tensor<16x72xf32>
  %y3 = linalg.matmul ins(%x3, %w : tensor<16x8xf32>, tensor<8x72xf32>) outs(%start : tensor<16x72xf32>) -> tensor<16x72xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x72xf32>, tensor<16x72xf32>, tensor<16x72xf32>, tensor<16x72xf32>
}
}

// -----

// Few columns.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x48xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"}, %x3: tensor<16x8xf32> {dm.name = "x3"})
    -> (tensor<16x48xf32> {dm.name = "y0"}, tensor<16x48xf32> {dm.name = "y1"}, tensor<16x48xf32> {dm.name = "y2"}, tensor<16x48xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x48xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x48xf32>) -> tensor<16x48xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8xf32>, tensor<8x48xf32>) outs(%start : tensor<16x48xf32>) -> tensor<16x48xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8xf32>, tensor<8x48xf32>) outs(%start : tensor<16x48xf32>) -> tensor<16x48xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8xf32>, tensor<8x48xf32>) outs(%start : tensor<16x48xf32>) -> tensor<16x48xf32>
  %y3 = linalg.matmul ins(%x3, %w : tensor<16x8xf32>, tensor<8x48xf32>) outs(%start : tensor<16x48xf32>) -> tensor<16x48xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x48xf32>, tensor<16x48xf32>, tensor<16x48xf32>, tensor<16x48xf32>
}
}

// -----

// A product that is split along its depth.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8200x64xf32> {dm.name = "w"}, %x0: tensor<16x8200xf32> {dm.name = "x0"}, %x1: tensor<16x8200xf32> {dm.name = "x1"}, %x2: tensor<16x8200xf32> {dm.name = "x2"}, %x3: tensor<16x8200xf32> {dm.name = "x3"})
    -> (tensor<16x64xf32> {dm.name = "y0"}, tensor<16x64xf32> {dm.name = "y1"}, tensor<16x64xf32> {dm.name = "y2"}, tensor<16x64xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8200xf32>, tensor<8200x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8200xf32>, tensor<8200x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8200xf32>, tensor<8200x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  %y3 = linalg.matmul ins(%x3, %w : tensor<16x8200xf32>, tensor<8200x64xf32>) outs(%start : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
}

// -----

// Narrow elements.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier
// CHECK: return
module attributes {dm.target = "cpu"} {
func.func @step(%w: tensor<8x64xbf16> {dm.name = "w"}, %x0: tensor<16x8xbf16> {dm.name = "x0"}, %x1: tensor<16x8xbf16> {dm.name = "x1"}, %x2: tensor<16x8xbf16> {dm.name = "x2"}, %x3: tensor<16x8xbf16> {dm.name = "x3"})
    -> (tensor<16x64xbf16> {dm.name = "y0"}, tensor<16x64xbf16> {dm.name = "y1"}, tensor<16x64xbf16> {dm.name = "y2"}, tensor<16x64xbf16> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : bf16
  %empty = tensor.empty() : tensor<16x64xbf16>
  %start = linalg.fill ins(%zero : bf16) outs(%empty : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %y0 = linalg.matmul ins(%x0, %w : tensor<16x8xbf16>, tensor<8x64xbf16>) outs(%start : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %y1 = linalg.matmul ins(%x1, %w : tensor<16x8xbf16>, tensor<8x64xbf16>) outs(%start : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %y2 = linalg.matmul ins(%x2, %w : tensor<16x8xbf16>, tensor<8x64xbf16>) outs(%start : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %y3 = linalg.matmul ins(%x3, %w : tensor<16x8xbf16>, tensor<8x64xbf16>) outs(%start : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  return %y0, %y1, %y2, %y3 : tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x64xbf16>
}
}
