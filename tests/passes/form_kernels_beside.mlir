// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// What is computed from %x alone, and would read it once more, is computed behind the product whose results read it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: {{[^%]+}}, %[[W:[^:]+]]: {{[^%]+}}, %[[X:[^:]+]]:
// CHECK-NEXT: %[[Y:.+]]:2 = "dm.kernel"(%[[A]], %[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: return %[[Y]]#{{[01]}}, %[[Y]]#{{[01]}}
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<64x32xf32> {dm.name = "a"}, %w: tensor<32x128xf32> {dm.name = "w"},
                %x: tensor<64x128xf32> {dm.name = "x"}) -> (tensor<64x128xf32> {dm.name = "y"}, tensor<64x128xf32> {dm.name = "z"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x128xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x128xf32>) -> tensor<64x128xf32>
  %p = linalg.matmul ins(%a, %w : tensor<64x32xf32>, tensor<32x128xf32>) outs(%fill : tensor<64x128xf32>)
      -> tensor<64x128xf32>
  %y = arith.mulf %p, %x : tensor<64x128xf32>
  %z = math.exp %x : tensor<64x128xf32>
  return %y, %z : tensor<64x128xf32>, tensor<64x128xf32>
}
}

// -----

// The same by rows.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]:
// CHECK-NEXT: %[[Y:.+]]:2 = "dm.kernel"(%[[X]])
// CHECK-NEXT: return %[[Y]]#{{[01]}}, %[[Y]]#{{[01]}}
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x128xf32> {dm.name = "x"}) -> (tensor<64xf32> {dm.name = "y"}, tensor<64x128xf32> {dm.name = "z"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x128xf32>) outs(%fill : tensor<64xf32>) {
  ^bb0(%in: f32, %o: f32):
    %s = arith.addf %o, %in : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %z = math.exp %x : tensor<64x128xf32>
  return %y, %z : tensor<64xf32>, tensor<64x128xf32>
}
}

// -----

// Near miss: the product reads %x as a factor, so nothing would be read once less.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: "dm.kernel"
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x64xf32> {dm.name = "x"}, %w: tensor<64x64xf32> {dm.name = "w"})
    -> (tensor<64x64xf32> {dm.name = "y"}, tensor<64x64xf32> {dm.name = "z"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %y = arith.negf %p : tensor<64x64xf32>
  %z = math.exp %x : tensor<64x64xf32>
  return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>
}
}

// -----

// The kernel that computes %f and, from what it read, %g at the end of the step, is needed early: until it runs, what
// is transposed for the end waits, although %x exists.
// CHECK-LABEL: func.func @step
// CHECK: %[[F:.+]]:2 = "dm.kernel"(%{{.*}}) {body = @elementwise_0
// CHECK: %[[P:.+]] = "dm.kernel"(%[[F]]#{{[01]}}, %{{.*}}) {body = @matmul_0
// CHECK: %[[T:.+]] = "dm.kernel"(%{{.*}}) {body = @transpose_0
// CHECK: "dm.kernel"(%[[T]], %[[P]]) {body = @matmul_0
// CPU-LABEL: func.func @step
// CPU-COUNT-4: "dm.kernel"
#wide = affine_map<(i, j) -> (i, j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x64xf32> {dm.name = "x"}, %w: tensor<64x64xf32> {dm.name = "w"})
    -> (tensor<64x64xf32> {dm.name = "e"}, tensor<64x64xf32> {dm.name = "g"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %f = math.exp %x : tensor<64x64xf32>
  %p = linalg.matmul ins(%f, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %t = linalg.transpose ins(%w : tensor<64x64xf32>) outs(%empty : tensor<64x64xf32>) permutation = [1, 0]
  %q = "iree_tensor_ext.compute_barrier_start"(%t) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = linalg.matmul ins(%q, %p : tensor<64x64xf32>, tensor<64x64xf32>) outs(%fill : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %g = arith.mulf %x, %x : tensor<64x64xf32>
  return %e, %g : tensor<64x64xf32>, tensor<64x64xf32>
}
}

// -----

// A convolution reads what only has its outer dimensions exchanged in place; what a sum reads, too, is in memory.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: {{[^%]+}}, %[[D:[^:]+]]:
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[D]]) {body = @transpose_0
// CHECK-NEXT: "dm.kernel"(%[[T]], %[[X]]) {body = @convolution_0
// CPU-LABEL: func.func @step
#all = affine_map<(a, b, c, d) -> (a, b, c, d)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<6x9x8x8xf32> {dm.name = "x"}, %d: tensor<6x10x8x8xf32> {dm.name = "d"})
    -> (tensor<9x10x1x1xf32> {dm.name = "y"}, tensor<10x6x8x8xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %ex = tensor.empty() : tensor<9x6x8x8xf32>
  %ed = tensor.empty() : tensor<10x6x8x8xf32>
  %ey = tensor.empty() : tensor<9x10x1x1xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%ey : tensor<9x10x1x1xf32>) -> tensor<9x10x1x1xf32>
  %tx = linalg.transpose ins(%x : tensor<6x9x8x8xf32>) outs(%ex : tensor<9x6x8x8xf32>) permutation = [1, 0, 2, 3]
  %td = linalg.transpose ins(%d : tensor<6x10x8x8xf32>) outs(%ed : tensor<10x6x8x8xf32>) permutation = [1, 0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%tx, %td : tensor<9x6x8x8xf32>, tensor<10x6x8x8xf32>) outs(%fill : tensor<9x10x1x1xf32>)
      -> tensor<9x10x1x1xf32>
  return %y, %td : tensor<9x10x1x1xf32>, tensor<10x6x8x8xf32>
}
}
