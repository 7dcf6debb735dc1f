// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// The gradient through an activation, and the bias's, a sum over columns, are made where the product is. IREE's kernels of
// products cannot add up.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[DY:[^:]+]]: tensor<16x8xbf16> {{[^%]+}}, %[[W:[^:]+]]: tensor<8x32xbf16> {{[^%]+}}, %[[X:[^:]+]]: tensor<16x32xbf16>
// CHECK-NEXT: %[[R:.+]]:2 = "dm.kernel"(%[[DY]], %[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CPU-LABEL: func.func @step
// CPU-SAME: (%[[DY:[^:]+]]: tensor<16x8xbf16> {{[^%]+}}, %[[W:[^:]+]]: tensor<8x32xbf16> {{[^%]+}}, %[[X:[^:]+]]: tensor<16x32xbf16>
// CPU-NEXT: %[[DX:.+]] = "dm.kernel"(%[[DY]], %[[W]], %[[X]]) {body = @matmul_0
// CPU-NEXT: %[[B:.+]] = "dm.kernel"(%[[DX]]) {body = @reduce_0
// CPU-NEXT: return %[[DX]], %[[B]]
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xbf16> {dm.name = "dy"}, %w: tensor<8x32xbf16> {dm.name = "w"},
                %x: tensor<16x32xbf16> {dm.name = "x"})
    -> (tensor<16x32xbf16> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<16x32xf32>
  %narrow = tensor.empty() : tensor<16x32xbf16>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xbf16>, tensor<8x32xbf16>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<16x32xf32>) outs(%narrow : tensor<16x32xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %t = arith.truncf %in : f32 to bf16
      linalg.yield %t : bf16
  } -> tensor<16x32xbf16>
  %dx = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %x : tensor<16x32xbf16>, tensor<16x32xbf16>) outs(%narrow : tensor<16x32xbf16>) {
    ^bb0(%in: bf16, %at: bf16, %out: bf16):
      %e = math.erf %at : bf16
      %d = arith.mulf %in, %e : bf16
      linalg.yield %d : bf16
  } -> tensor<16x32xbf16>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xbf16>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %e = arith.extf %in : bf16 to f32
      %s = arith.addf %e, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %dx, %db : tensor<16x32xbf16>, tensor<32xf32>
}
}

// -----

// Without a function the epilogue costs little beside its product.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[DY:[^:]+]]: tensor<16x8xbf16> {{[^%]+}}, %[[W:[^:]+]]: tensor<8x32xbf16> {{[^%]+}}, %[[X:[^:]+]]: tensor<16x32xbf16>
// CHECK-NEXT: %[[DX:.+]] = "dm.kernel"(%[[DY]], %[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[DX]]) {body = @reduce_0
// CHECK-NEXT: return %[[DX]], %[[B]]
// CPU-LABEL: func.func @step
// CPU-COUNT-2: "dm.kernel"
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xbf16> {dm.name = "dy"}, %w: tensor<8x32xbf16> {dm.name = "w"},
                %x: tensor<16x32xbf16> {dm.name = "x"})
    -> (tensor<16x32xbf16> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<16x32xf32>
  %narrow = tensor.empty() : tensor<16x32xbf16>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xbf16>, tensor<8x32xbf16>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %dx = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %x : tensor<16x32xf32>, tensor<16x32xbf16>) outs(%narrow : tensor<16x32xbf16>) {
    ^bb0(%in: f32, %at: bf16, %out: bf16):
      %t = arith.truncf %in : f32 to bf16
      %d = arith.mulf %t, %at : bf16
      linalg.yield %d : bf16
  } -> tensor<16x32xbf16>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xbf16>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %e = arith.extf %in : bf16 to f32
      %s = arith.addf %e, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %dx, %db : tensor<16x32xbf16>, tensor<32xf32>
}
}

// -----

// What reads the same is made with them, as an activation beside its gradient, wherever it stands.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[DY:[^:]+]]: {{[^%]+}}, %[[W:[^:]+]]: {{[^%]+}}, %[[X:[^:]+]]:
// CHECK-NEXT: %[[R:.+]]:3 = "dm.kernel"(%[[DY]], %[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: return
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xf32> {dm.name = "dy"}, %w: tensor<8x32xf32> {dm.name = "w"},
                %x: tensor<16x32xf32> {dm.name = "x"})
    -> (tensor<16x32xf32> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}, tensor<16x32xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xf32>, tensor<8x32xf32>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %dx = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %x : tensor<16x32xf32>, tensor<16x32xf32>) outs(%empty : tensor<16x32xf32>) {
    ^bb0(%in: f32, %at: f32, %out: f32):
      %e = math.erf %at : f32
      %d = arith.mulf %in, %e : f32
      linalg.yield %d : f32
  } -> tensor<16x32xf32>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %y = math.tanh %x : tensor<16x32xf32>
  return %dx, %db, %y : tensor<16x32xf32>, tensor<32xf32>, tensor<16x32xf32>
}
}

// -----

// Near miss: what the function makes is read by the epilogue of a product. Apart, it would be written and read.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[DY:[^:]+]]: {{[^%]+}}, %[[W:[^:]+]]: {{[^%]+}}, %[[X:[^:]+]]:
// CHECK-NEXT: %[[DX:.+]] = "dm.kernel"(%[[DY]], %[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[DX]]) {body = @reduce_0
// CHECK-NEXT: return %[[DX]], %[[B]]
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xf32> {dm.name = "dy"}, %w: tensor<8x32xf32> {dm.name = "w"},
                %x: tensor<16x32xf32> {dm.name = "x"})
    -> (tensor<16x32xf32> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xf32>, tensor<8x32xf32>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %e = math.erf %x : tensor<16x32xf32>
  %dx = arith.mulf %p, %e : tensor<16x32xf32>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %dx, %db : tensor<16x32xf32>, tensor<32xf32>
}
}

// -----

// What is summed over columns alone is made with that sum, though the kernel of rows reads the same tensors, and
// statistics besides.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[DX:.+]] = "dm.kernel"(%arg0, %arg1, %arg2) {body = @reduce_0
// CHECK-NEXT: %[[DW:.+]] = "dm.kernel"(%arg0, %arg2, %arg1) {body = @reduce_1
// CHECK-NEXT: return %[[DX]], %[[DW]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x64xf32> {dm.name = "x"}, %dy: tensor<64x64xf32> {dm.name = "dy"},
                %m: tensor<64xf32> {dm.name = "m"})
    -> (tensor<64x64xf32> {dm.name = "dx"}, tensor<64xf32> {dm.name = "dw"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<64x64xf32>
  %rows = tensor.empty() : tensor<64xf32>
  %few = tensor.empty() : tensor<64xf32>
  %none = linalg.fill ins(%zero : f32) outs(%rows : tensor<64xf32>) -> tensor<64xf32>
  %null = linalg.fill ins(%zero : f32) outs(%few : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %dy, %m : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>) outs(%none : tensor<64xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
      %d = arith.subf %a, %c : f32
      %p = arith.mulf %d, %b : f32
      %s = arith.addf %p, %out : f32
      linalg.yield %s : f32
  } -> tensor<64xf32>
  %dx = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%dy, %sum : tensor<64x64xf32>, tensor<64xf32>) outs(%wide : tensor<64x64xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
  } -> tensor<64x64xf32>
  %z = linalg.generic {indexing_maps = [#id, #row, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m, %dy : tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>) outs(%wide : tensor<64x64xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
      %d = arith.subf %a, %b : f32
      %p = arith.mulf %d, %c : f32
      linalg.yield %p : f32
  } -> tensor<64x64xf32>
  %dw = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%z : tensor<64x64xf32>) outs(%null : tensor<64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<64xf32>
  return %dx, %dw : tensor<64x64xf32>, tensor<64xf32>
}
}

// -----

// Near miss: tiles of products with batches leave no sums. The library multiplies, and the function is made with its sums.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[DY:[^:]+]]: tensor<2x16x8xf32> {{[^%]+}}, %[[W:[^:]+]]: tensor<2x8x32xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<2x16x32xf32>
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[DY]], %[[W]]) {body = @matmul_0
// CHECK-NEXT: %[[R:.+]]:2 = "dm.kernel"(%[[P]], %[[X]]) {body = @reduce_0
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
#id = affine_map<(b, i, j) -> (b, i, j)>
#column = affine_map<(b, i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<2x16x8xf32> {dm.name = "dy"}, %w: tensor<2x8x32xf32> {dm.name = "w"},
                %x: tensor<2x16x32xf32> {dm.name = "x"})
    -> (tensor<2x16x32xf32> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x16x32xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.batch_matmul ins(%dy, %w : tensor<2x16x8xf32>, tensor<2x8x32xf32>) outs(%zeros : tensor<2x16x32xf32>)
      -> tensor<2x16x32xf32>
  %dx = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %x : tensor<2x16x32xf32>, tensor<2x16x32xf32>) outs(%empty : tensor<2x16x32xf32>) {
    ^bb0(%in: f32, %at: f32, %out: f32):
      %e = math.erf %at : f32
      %d = arith.mulf %in, %e : f32
      linalg.yield %d : f32
  } -> tensor<2x16x32xf32>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dx : tensor<2x16x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %dx, %db : tensor<2x16x32xf32>, tensor<32xf32>
}
}

// -----

// Near miss: nobody else reads the epilogue's result, but it computes no function. The sum stays apart.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[Y:.+]] = "dm.kernel"(%arg0, %arg1, %arg2) {body = @matmul_0
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[Y]]) {body = @reduce_0
// CHECK-NEXT: return %[[B]]
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xf32> {dm.name = "dy"}, %w: tensor<8x32xf32> {dm.name = "w"},
                %x: tensor<16x32xf32> {dm.name = "x"}) -> (tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xf32>, tensor<8x32xf32>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %dx = arith.mulf %p, %x : tensor<16x32xf32>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %db : tensor<32xf32>
}
}

// -----

// Near miss: the product is written as well. The library multiplies, and the function is made with its sums.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%arg0, %arg1) {body = @matmul_0
// CHECK-NEXT: %[[R:.+]]:2 = "dm.kernel"(%[[P]], %arg2) {body = @reduce_0
// CHECK-NEXT: return %[[P]], %[[R]]#0, %[[R]]#1
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%dy: tensor<16x8xf32> {dm.name = "dy"}, %w: tensor<8x32xf32> {dm.name = "w"},
                %x: tensor<16x32xf32> {dm.name = "x"})
    -> (tensor<16x32xf32> {dm.name = "p"}, tensor<16x32xf32> {dm.name = "dx"}, tensor<32xf32> {dm.name = "db"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x32xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x32xf32>) -> tensor<16x32xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%dy, %w : tensor<16x8xf32>, tensor<8x32xf32>) outs(%zeros : tensor<16x32xf32>) -> tensor<16x32xf32>
  %dx = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %x : tensor<16x32xf32>, tensor<16x32xf32>) outs(%empty : tensor<16x32xf32>) {
    ^bb0(%in: f32, %at: f32, %out: f32):
      %e = math.erf %at : f32
      %d = arith.mulf %in, %e : f32
      linalg.yield %d : f32
  } -> tensor<16x32xf32>
  %db = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%dx : tensor<16x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  return %p, %dx, %db : tensor<16x32xf32>, tensor<16x32xf32>, tensor<32xf32>
}
}
