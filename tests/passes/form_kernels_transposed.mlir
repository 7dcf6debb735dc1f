// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// On a CPU a matrix that four products of few rows read transposed is transposed once. A GPU reads it as it is.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-4: "dm.kernel"
// CHECK-NOT: "dm.kernel"
// CHECK: return
// CPU-LABEL: func.func @step
// CPU-SAME: (%[[W:[^:]+]]:
// CPU-NEXT: %[[T:.+]] = "dm.kernel"(%[[W]]) {body = @transpose_0,
// CPU-COUNT-4: "dm.kernel"(%{{[^,]+}}, %[[T]]) {body = @matmul_0,
// CPU-NOT: "dm.kernel"
// CPU: return
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<32x8xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"}, %x3: tensor<16x8xf32> {dm.name = "x3"})
    -> (tensor<16x32xf32> {dm.name = "y0"}, tensor<16x32xf32> {dm.name = "y1"}, tensor<16x32xf32> {dm.name = "y2"}, tensor<16x32xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %turned = tensor.empty() : tensor<8x32xf32>
  %t = linalg.transpose ins(%w : tensor<32x8xf32>) outs(%turned : tensor<8x32xf32>) permutation = [1, 0]
  %y0 = linalg.matmul ins(%x0, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y1 = linalg.matmul ins(%x1, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y2 = linalg.matmul ins(%x2, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y3 = linalg.matmul ins(%x3, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %y0, %y1, %y2, %y3 : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
}
}

// -----

// Three products transpose it on their way.
// CPU-LABEL: func.func @step
// CPU-NOT: @transpose_0
// CPU-COUNT-3: "dm.kernel"({{.*}}) {body = @matmul_0,
// CPU-NOT: "dm.kernel"
// CPU: return
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<32x8xf32> {dm.name = "w"}, %x0: tensor<16x8xf32> {dm.name = "x0"}, %x1: tensor<16x8xf32> {dm.name = "x1"}, %x2: tensor<16x8xf32> {dm.name = "x2"})
    -> (tensor<16x32xf32> {dm.name = "y0"}, tensor<16x32xf32> {dm.name = "y1"}, tensor<16x32xf32> {dm.name = "y2"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %turned = tensor.empty() : tensor<8x32xf32>
  %t = linalg.transpose ins(%w : tensor<32x8xf32>) outs(%turned : tensor<8x32xf32>) permutation = [1, 0]
  %y0 = linalg.matmul ins(%x0, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y1 = linalg.matmul ins(%x1, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y2 = linalg.matmul ins(%x2, %t : tensor<16x8xf32>, tensor<8x32xf32>) outs(%start : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %y0, %y1, %y2 : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
}
}

// -----

// So do four of many rows.
// CPU-LABEL: func.func @step
// CPU-NOT: @transpose_0
// CPU-COUNT-4: "dm.kernel"({{.*}}) {body = @matmul_0,
// CPU-NOT: "dm.kernel"
// CPU: return
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<32x8xf32> {dm.name = "w"}, %x0: tensor<64x8xf32> {dm.name = "x0"}, %x1: tensor<64x8xf32> {dm.name = "x1"}, %x2: tensor<64x8xf32> {dm.name = "x2"}, %x3: tensor<64x8xf32> {dm.name = "x3"})
    -> (tensor<64x32xf32> {dm.name = "y0"}, tensor<64x32xf32> {dm.name = "y1"}, tensor<64x32xf32> {dm.name = "y2"}, tensor<64x32xf32> {dm.name = "y3"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x32xf32>) -> tensor<64x32xf32>
  %turned = tensor.empty() : tensor<8x32xf32>
  %t = linalg.transpose ins(%w : tensor<32x8xf32>) outs(%turned : tensor<8x32xf32>) permutation = [1, 0]
  %y0 = linalg.matmul ins(%x0, %t : tensor<64x8xf32>, tensor<8x32xf32>) outs(%start : tensor<64x32xf32>) -> tensor<64x32xf32>
  %y1 = linalg.matmul ins(%x1, %t : tensor<64x8xf32>, tensor<8x32xf32>) outs(%start : tensor<64x32xf32>) -> tensor<64x32xf32>
  %y2 = linalg.matmul ins(%x2, %t : tensor<64x8xf32>, tensor<8x32xf32>) outs(%start : tensor<64x32xf32>) -> tensor<64x32xf32>
  %y3 = linalg.matmul ins(%x3, %t : tensor<64x8xf32>, tensor<8x32xf32>) outs(%start : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %y0, %y1, %y2, %y3 : tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>
}
}
