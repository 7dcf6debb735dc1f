// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// What reduces the rows of a tensor also adds up its columns over all rows, and those of what it gives, and narrows such a
// sum. IREE's kernels cannot.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4096x32xf32>
// CHECK-NEXT: %[[R:.+]]:3 = "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK-NEXT: return %[[R]]#
// CPU-LABEL: func.func @step
// CPU-SAME: (%[[X:[^:]+]]: tensor<4096x32xf32>
// CPU-NEXT: %[[Y:.+]] = "dm.kernel"(%[[X]]) {body = @reduce_0
// CPU-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]]) {body = @reduce_1
// CPU-NEXT: %[[B:.+]] = "dm.kernel"(%[[Y]]) {body = @reduce_2
// CPU-NEXT: return %[[Y]], %[[A]], %[[B]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4096x32xf32> {dm.name = "x"})
    -> (tensor<4096x32xf32> {dm.name = "y"}, tensor<32xf32> {dm.name = "a"}, tensor<32xbf16> {dm.name = "b"}) {
  %zero = arith.constant 0.0 : f32
  %short = tensor.empty() : tensor<32xbf16>
  %wide = tensor.empty() : tensor<4096x32xf32>
  %tall = tensor.empty() : tensor<4096xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<4096xf32>) -> tensor<4096xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4096x32xf32>) outs(%zeros : tensor<4096xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<4096x32xf32>, tensor<4096xf32>) outs(%wide : tensor<4096x32xf32>) {
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %d = arith.subf %in, %sum : f32
      linalg.yield %d : f32
  } -> tensor<4096x32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %b = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<4096x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>], iterator_types = ["parallel"]}
      ins(%b : tensor<32xf32>) outs(%short : tensor<32xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %n = arith.truncf %in : f32 to bf16
      linalg.yield %n : bf16
  } -> tensor<32xbf16>
  return %y, %a, %c : tensor<4096x32xf32>, tensor<32xf32>, tensor<32xbf16>
}
}

// -----

// A row that depends on a sum over all of them waits for it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4096x32xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[X]], %[[A]]) {body = @reduce_1
// CHECK-NEXT: return %[[A]], %[[T]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4096x32xf32> {dm.name = "x"})
    -> (tensor<32xf32> {dm.name = "a"}, tensor<4096xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %tall = tensor.empty() : tensor<4096xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<4096xf32>) -> tensor<4096xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #column, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %a : tensor<4096x32xf32>, tensor<32xf32>) outs(%zeros : tensor<4096xf32>) {
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %d = arith.subf %in, %sum : f32
      %s = arith.addf %d, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %a, %t : tensor<32xf32>, tensor<4096xf32>
}
}

// -----

// With few rows a program would have too few of them to add up; nor is it done where no programs share rows evenly.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"
// CHECK: "dm.kernel"
// CHECK: return
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4095x32xf32> {dm.name = "x"})
    -> (tensor<32xf32> {dm.name = "a"}, tensor<4095xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %tall = tensor.empty() : tensor<4095xf32>
  %few = tensor.empty() : tensor<32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<4095xf32>) -> tensor<4095xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4095x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4095x32xf32>) outs(%zeros : tensor<4095xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<4095xf32>
  return %a, %t : tensor<32xf32>, tensor<4095xf32>
}
}

// -----

// A product adds up columns of what comes of it, but reduces no rows: both are done behind it, together.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4096x16xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<16x32xf32>
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: %[[R:.+]]:2 = "dm.kernel"(%[[P]]) {body = @reduce_0
// CHECK-NEXT: return %[[R]]#
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<4096x16xf32> {dm.name = "w"}, %x: tensor<16x32xf32> {dm.name = "x"})
    -> (tensor<32xf32> {dm.name = "a"}, tensor<4096xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<4096x32xf32>
  %tall = tensor.empty() : tensor<4096xf32>
  %few = tensor.empty() : tensor<32xf32>
  %blank = linalg.fill ins(%zero : f32) outs(%wide : tensor<4096x32xf32>) -> tensor<4096x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<4096xf32>) -> tensor<4096xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%w, %x : tensor<4096x16xf32>, tensor<16x32xf32>) outs(%blank : tensor<4096x32xf32>)
      -> tensor<4096x32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%p : tensor<4096x32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<4096x32xf32>) outs(%zeros : tensor<4096xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %a, %t : tensor<32xf32>, tensor<4096xf32>
}
}

// -----

// Sums of one tensor and rows of another share no more than a row.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4096x32xf32> {{[^%]+}}, %[[Y:[^:]+]]: tensor<4096x32xf32> {{[^%]+}}, %[[G:[^:]+]]: tensor<32xf32>
// CHECK-DAG: "dm.kernel"(%[[X]], %[[G]]) {body = @reduce_
// CHECK-DAG: "dm.kernel"(%[[Y]], %[[G]]) {body = @reduce_
// CHECK: return
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4096x32xf32> {dm.name = "x"}, %y: tensor<4096x32xf32> {dm.name = "y"},
                %g: tensor<32xf32> {dm.name = "g"})
    -> (tensor<32xf32> {dm.name = "a"}, tensor<4096xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %none4096 = tensor.empty() : tensor<4096xf32>
  %zeros4096 = linalg.fill ins(%zero : f32) outs(%none4096 : tensor<4096xf32>) -> tensor<4096xf32>
  %none32 = tensor.empty() : tensor<32xf32>
  %zeros32 = linalg.fill ins(%zero : f32) outs(%none32 : tensor<32xf32>) -> tensor<32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x, %g : tensor<4096x32xf32>, tensor<32xf32>) outs(%zeros32 : tensor<32xf32>) {
    ^bb0(%in: f32, %gain: f32, %out: f32):
      %p = arith.subf %in, %gain : f32
      %s = arith.addf %p, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #column, #row], iterator_types = ["parallel", "reduction"]}
      ins(%y, %g : tensor<4096x32xf32>, tensor<32xf32>) outs(%zeros4096 : tensor<4096xf32>) {
    ^bb0(%in: f32, %gain: f32, %out: f32):
      %p = arith.subf %in, %gain : f32
      %s = arith.addf %p, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %a, %t : tensor<32xf32>, tensor<4096xf32>
}
}

// -----

// Rows of another matrix with the same elements are reduced apart.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4096x32xf32>
// CHECK-NEXT: %[[R:.+]]:3 = "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK: "dm.kernel"({{.+}}) {body = @reduce_1
// CHECK-NEXT: return
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<4096x32xf32> {dm.name = "x"})
    -> (tensor<32xf32> {dm.name = "a"}, tensor<4096xf32> {dm.name = "t"}, tensor<8192xf32> {dm.name = "u"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<4096x32xf32>
  %none4096 = tensor.empty() : tensor<4096xf32>
  %zeros4096 = linalg.fill ins(%zero : f32) outs(%none4096 : tensor<4096xf32>) -> tensor<4096xf32>
  %none32 = tensor.empty() : tensor<32xf32>
  %zeros32 = linalg.fill ins(%zero : f32) outs(%none32 : tensor<32xf32>) -> tensor<32xf32>
  %none8192 = tensor.empty() : tensor<8192xf32>
  %zeros8192 = linalg.fill ins(%zero : f32) outs(%none8192 : tensor<8192xf32>) -> tensor<8192xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4096x32xf32>) outs(%zeros4096 : tensor<4096xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<4096x32xf32>, tensor<4096xf32>) outs(%wide : tensor<4096x32xf32>) {
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %d = arith.subf %in, %sum : f32
      linalg.yield %d : f32
  } -> tensor<4096x32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<4096x32xf32>) outs(%zeros32 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %f = tensor.collapse_shape %y [[0, 1]] : tensor<4096x32xf32> into tensor<131072xf32>
  %z = tensor.expand_shape %f [[0, 1]] output_shape [8192, 16] : tensor<131072xf32> into tensor<8192x16xf32>
  %u = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%z : tensor<8192x16xf32>) outs(%zeros8192 : tensor<8192xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<8192xf32>
  return %a, %t, %u : tensor<32xf32>, tensor<4096xf32>, tensor<8192xf32>
}
}

// -----

// Sums over a product's rows are made in its epilogue, with a function; rows of that are reduced behind it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<4096x16xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<16x32xf32>
// CHECK-NEXT: %[[P:.+]]:2 = "dm.kernel"(%[[W]], %[[X]]) {body = @matmul_0
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[P]]#0) {body = @reduce_0
// CHECK-NEXT: return %[[P]]#0, %[[P]]#1, %[[T]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<4096x16xf32> {dm.name = "w"}, %x: tensor<16x32xf32> {dm.name = "x"})
    -> (tensor<4096x32xf32> {dm.name = "y"}, tensor<32xf32> {dm.name = "a"}, tensor<4096xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<4096x32xf32>
  %blank = linalg.fill ins(%zero : f32) outs(%wide : tensor<4096x32xf32>) -> tensor<4096x32xf32>
  %none4096 = tensor.empty() : tensor<4096xf32>
  %zeros4096 = linalg.fill ins(%zero : f32) outs(%none4096 : tensor<4096xf32>) -> tensor<4096xf32>
  %none32 = tensor.empty() : tensor<32xf32>
  %zeros32 = linalg.fill ins(%zero : f32) outs(%none32 : tensor<32xf32>) -> tensor<32xf32>
  %p = linalg.matmul ins(%w, %x : tensor<4096x16xf32>, tensor<16x32xf32>) outs(%blank : tensor<4096x32xf32>)
      -> tensor<4096x32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<4096x32xf32>) outs(%wide : tensor<4096x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %e = math.erf %in : f32
      linalg.yield %e : f32
  } -> tensor<4096x32xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<4096x32xf32>) outs(%zeros32 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%y : tensor<4096x32xf32>) outs(%zeros4096 : tensor<4096xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %y, %a, %t : tensor<4096x32xf32>, tensor<32xf32>, tensor<4096xf32>
}
}

// -----

// As many columns, but not the last dimension: the middle one.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<64x64x64xf32>
// CHECK-DAG: "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK-DAG: "dm.kernel"(%[[X]]) {body = @reduce_1
// CHECK: return
#all = affine_map<(i, j, k) -> (i, j, k)>
module attributes {dm.target = "cuda"} {
func.func @step(%x: tensor<64x64x64xf32> {dm.name = "x"})
    -> (tensor<64xf32> {dm.name = "a"}, tensor<64x64xf32> {dm.name = "t"}) {
  %zero = arith.constant 0.0 : f32
  %tall = tensor.empty() : tensor<64x64xf32>
  %few = tensor.empty() : tensor<64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<64x64xf32>) -> tensor<64x64xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<64xf32>) -> tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#all, affine_map<(i, j, k) -> (j)>], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%x : tensor<64x64x64xf32>) outs(%none : tensor<64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#all, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<64x64x64xf32>) outs(%zeros : tensor<64x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<64x64xf32>
  return %a, %t : tensor<64xf32>, tensor<64x64xf32>
}
}
