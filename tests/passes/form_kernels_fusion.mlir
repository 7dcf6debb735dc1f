// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// A product, its bias and what follows it element by element are one kernel, with the transposed weight read as it lies.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32> {{[^%]+}}, %[[W:[^:]+]]: tensor<6x8xf32> {{[^%]+}}, %[[B:[^:]+]]: tensor<6xf32>
// CHECK-NEXT: %[[K:.+]]:2 = "dm.kernel"(%[[X]], %[[W]], %[[B]]) {body = @matmul_0, bytes = 536 : i64, flops = 432 : i64}
// CHECK-NEXT: return %[[K]]#0, %[[K]]#1
// CHECK: func.func private @matmul_0({{.+}}) -> (tensor<4x6xf32>, tensor<4x6xf32>) attributes {dm.kind = "matmul"}
// CHECK: linalg.transpose
// CHECK: linalg.matmul
// CHECK: %[[R:.+]]:2 = linalg.generic
// CHECK-NOT: linalg.{{generic|transpose|matmul}}
// CHECK: return %[[R]]#0, %[[R]]#1
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @step(%x: tensor<4x8xf32> {dm.name = "x"}, %w: tensor<6x8xf32> {dm.name = "w"},
                %b: tensor<6xf32> {dm.name = "b"})
    -> (tensor<4x6xf32> {dm.name = "y"}, tensor<4x6xf32> {dm.name = "z"}) {
  %zero = arith.constant 0.0 : f32
  %turned = tensor.empty() : tensor<8x6xf32>
  %empty = tensor.empty() : tensor<4x6xf32>
  %t = linalg.transpose ins(%w : tensor<6x8xf32>) outs(%turned : tensor<8x6xf32>) permutation = [1, 0]
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<4x6xf32>, tensor<6xf32>) outs(%empty : tensor<4x6xf32>) {
    ^bb0(%in: f32, %bias: f32, %out: f32):
      %s = arith.addf %in, %bias : f32
      linalg.yield %s : f32
  } -> tensor<4x6xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x6xf32>) outs(%empty : tensor<4x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// What goes over the rows of one tensor several times is one kernel: centred rows, and the mean beside them.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<32x8xf32>
// CHECK-NEXT: %[[K:.+]]:2 = "dm.kernel"(%[[X]]) {body = @reduce_0
// CHECK-NEXT: return %[[K]]#1, %[[K]]#0
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @step(%x: tensor<32x8xf32> {dm.name = "x"}) -> (tensor<32x8xf32> {dm.name = "y"}, tensor<32xf32> {dm.name = "m"}) {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<32xf32>
  %empty = tensor.empty() : tensor<32x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<32xf32>) -> tensor<32xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<32x8xf32>) outs(%zeros : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<32x8xf32>, tensor<32xf32>) outs(%empty : tensor<32x8xf32>) {
    ^bb0(%in: f32, %mean: f32, %out: f32):
      %s = arith.subf %in, %mean : f32
      linalg.yield %s : f32
  } -> tensor<32x8xf32>
  return %y, %m : tensor<32x8xf32>, tensor<32xf32>
}

// -----

// Near misses: a product reads what is computed for it from memory, and what is reduced of a product is a kernel of its
// own.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%{{.+}}) {body = @elementwise_0
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[A]]) {body = @matmul_0
// CHECK-NEXT: %[[Q:.+]] = "dm.kernel"(%[[P]], %[[A]]) {body = @matmul_1
// CHECK-NEXT: %[[R:.+]] = "dm.kernel"(%[[Q]]) {body = @reduce_0
// CHECK-NEXT: return %[[R]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @step(%x: tensor<8x8xf32> {dm.name = "x"}) -> (tensor<8xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<8xf32>
  %empty = tensor.empty() : tensor<8x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %none = linalg.fill ins(%zero : f32) outs(%rows : tensor<8xf32>) -> tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = linalg.matmul ins(%p, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%q : tensor<8x8xf32>) outs(%none : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Near misses: not across a movement, not across a barrier, and not around a kernel between the two. Of these, the last
// reads what the first and the second gave, and joins the second.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%{{.+}}) {body = @[[TANH:.+]], bytes
// CHECK-NEXT: %[[R:.+]] = "dm.all_reduce"(%[[A]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[R]]) {body = @[[TANH]], bytes
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[B]]) {body = @[[TANH]], bytes
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[C]], %[[A]]) {body = @matmul_0
// CHECK-NEXT: return %[[P]]
#id = affine_map<(i, j) -> (i, j)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x8xf32> {dm.name = "x"}) -> (tensor<8x8xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %r = "dm.all_reduce"(%a) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %barrier = "iree_tensor_ext.compute_barrier_start"(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%barrier : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p = linalg.matmul ins(%c, %c : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) {
    ^bb0(%in: f32, %other: f32, %out: f32):
      %s = arith.addf %in, %other : f32
      linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// Near misses: rows that are looked up by place are read from memory; a result that is read in two orders is written.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%{{.+}}) {body = @elementwise_0
// CHECK-NEXT: %[[G:.+]] = "dm.kernel"(%{{.+}}, %[[A]]) {body = @gather_0, bytes = 144 : i64
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[A]]) {body = @transpose_0
// CHECK-NEXT: return %[[A]], %[[T]], %[[G]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @step(%x: tensor<6x8xf32> {dm.name = "x"}, %places: tensor<2xi64> {dm.name = "i"})
    -> (tensor<6x8xf32> {dm.name = "a"}, tensor<8x6xf32> {dm.name = "t"}, tensor<2x8xf32> {dm.name = "g"}) {
  %empty = tensor.empty() : tensor<6x8xf32>
  %few = tensor.empty() : tensor<2x8xf32>
  %turned = tensor.empty() : tensor<8x6xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x8xf32>) outs(%empty : tensor<6x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<6x8xf32>
  %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%places : tensor<2xi64>) outs(%few : tensor<2x8xf32>) {
    ^bb0(%in: i64, %out: f32):
      %i = arith.index_cast %in : i64 to index
      %j = linalg.index 1 : index
      %e = tensor.extract %a[%i, %j] : tensor<6x8xf32>
      linalg.yield %e : f32
  } -> tensor<2x8xf32>
  %t = linalg.transpose ins(%a : tensor<6x8xf32>) outs(%turned : tensor<8x6xf32>) permutation = [1, 0]
  return %a, %t, %g : tensor<6x8xf32>, tensor<8x6xf32>, tensor<2x8xf32>
}

// -----

// A sum over columns takes what only it reads into its kernel, and a second sum of the same is computed beside it.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[K:.+]]:2 = "dm.kernel"(%{{.+}}) {body = @reduce_0
// CHECK-NEXT: return %[[K]]#0, %[[K]]#1
// CHECK: func.func private @reduce_0
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins({{.+}}) outs(%{{.+}}, %{{.+}} :
// CHECK-NOT: linalg.generic
// CHECK: return
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @step(%x: tensor<32x8xf32> {dm.name = "x"}) -> (tensor<8xf32> {dm.name = "a"}, tensor<8xf32> {dm.name = "b"}) {
  %zero = arith.constant 0.0 : f32
  %columns = tensor.empty() : tensor<8xf32>
  %empty = tensor.empty() : tensor<32x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%columns : tensor<8xf32>) -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<32x8xf32>) outs(%empty : tensor<32x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<32x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<32x8xf32>) outs(%zeros : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<8xf32>
  %b = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<32x8xf32>) outs(%zeros : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.maximumf %in, %out : f32
      linalg.yield %s : f32
  } -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// Of each matrix in a batch the product reads the transposed as it lies, also where the batch has been several
// dimensions; where these change places too, the transposition is a kernel of its own.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[Q:[^:]+]]: tensor<6x4x5xf32> {{[^%]+}}, %[[K:[^:]+]]: tensor<2x3x4x5xf32>
// CHECK-NEXT: %[[KS:.+]] = tensor.collapse_shape %[[K]] {{\[\[}}0, 1], [2], [3]]
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[Q]], %[[KS]]) {body = @matmul_0
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[K]]) {body = @transpose_0
// CHECK-NEXT: %[[TS:.+]] = tensor.collapse_shape %[[T]]
// CHECK-NEXT: %[[R:.+]] = "dm.kernel"(%[[Q]], %[[TS]]) {body = @matmul_1
// CHECK-NEXT: return %[[P]], %[[R]]
func.func @step(%q: tensor<6x4x5xf32> {dm.name = "q"}, %k: tensor<2x3x4x5xf32> {dm.name = "k"})
    -> (tensor<6x4x4xf32> {dm.name = "y"}, tensor<6x4x4xf32> {dm.name = "z"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x4x4xf32>
  %turned = tensor.empty() : tensor<2x3x5x4xf32>
  %swapped = tensor.empty() : tensor<3x2x5x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x4x4xf32>) -> tensor<6x4x4xf32>
  %t = linalg.transpose ins(%k : tensor<2x3x4x5xf32>) outs(%turned : tensor<2x3x5x4xf32>) permutation = [0, 1, 3, 2]
  %ts = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x3x5x4xf32> into tensor<6x5x4xf32>
  %p = linalg.batch_matmul ins(%q, %ts : tensor<6x4x5xf32>, tensor<6x5x4xf32>) outs(%zeros : tensor<6x4x4xf32>)
      -> tensor<6x4x4xf32>
  %u = linalg.transpose ins(%k : tensor<2x3x4x5xf32>) outs(%swapped : tensor<3x2x5x4xf32>) permutation = [1, 0, 3, 2]
  %us = tensor.collapse_shape %u [[0, 1], [2], [3]] : tensor<3x2x5x4xf32> into tensor<6x5x4xf32>
  %r = linalg.batch_matmul ins(%q, %us : tensor<6x4x5xf32>, tensor<6x5x4xf32>) outs(%zeros : tensor<6x4x4xf32>)
      -> tensor<6x4x4xf32>
  return %p, %r : tensor<6x4x4xf32>, tensor<6x4x4xf32>
}

// -----

// Nothing is left of the transposition itself, which would go through the same loops as the product.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[Q:[^:]+]]: tensor<6x4x4xf32> {{[^%]+}}, %[[K:[^:]+]]: tensor<2x3x4x4xf32>
// CHECK-NEXT: %[[KS:.+]] = tensor.collapse_shape %[[K]]
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[Q]], %[[KS]]) {body = @matmul_0
// CHECK-NEXT: return %[[P]]
func.func @step(%q: tensor<6x4x4xf32> {dm.name = "q"}, %k: tensor<2x3x4x4xf32> {dm.name = "k"})
    -> (tensor<6x4x4xf32> {dm.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x4x4xf32>
  %turned = tensor.empty() : tensor<2x3x4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x4x4xf32>) -> tensor<6x4x4xf32>
  %t = linalg.transpose ins(%k : tensor<2x3x4x4xf32>) outs(%turned : tensor<2x3x4x4xf32>) permutation = [0, 1, 3, 2]
  %ts = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x3x4x4xf32> into tensor<6x4x4xf32>
  %p = linalg.batch_matmul ins(%q, %ts : tensor<6x4x4xf32>, tensor<6x4x4xf32>) outs(%zeros : tensor<6x4x4xf32>)
      -> tensor<6x4x4xf32>
  return %p : tensor<6x4x4xf32>
}

// -----

// Near miss in a kernel: what is read at another place than it is written stays apart from what writes it.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[Y:.+]] = "dm.kernel"(%{{.+}}) {body = @elementwise_0
// CHECK-NEXT: return %[[Y]]
// CHECK: func.func private @elementwise_0
// CHECK: %[[A:.+]] = linalg.generic
// CHECK: math.tanh
// CHECK: %[[B:.+]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK: math.exp
// CHECK: return %[[B]]
#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
func.func @step(%x: tensor<4x4xf32> {dm.name = "x"}) -> (tensor<4x4xf32> {dm.name = "y"}) {
  %empty = tensor.empty() : tensor<4x4xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.tanh %in : f32
      linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %y = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = math.exp %in : f32
      linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// A kernel whose result others read waits for no movement that they need not wait for, unless that gathers a small weight.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.+]] = "dm.all_gather"(%arg1)
// CHECK: %[[A:.+]]:3 = "dm.kernel"(%arg0, %[[G]]) {body = @elementwise_0
// CHECK: "dm.kernel"(%[[A]]#0) {body = @matmul_0
// CHECK: %[[R:.+]] = "dm.all_reduce"(%arg2)
// CHECK: "dm.kernel"(%[[A]]#2) {body = @matmul_0
// CHECK: "dm.kernel"(%[[A]]#2, %[[R]]) {body = @elementwise_1
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<64x64xf32> {dm.name = "x"}, %w: tensor<32xf32> {dm.name = "w"}, %v: tensor<64xf32> {dm.name = "v"})
    -> (tensor<64x64xf32> {dm.name = "p"}, tensor<64x64xf32> {dm.name = "c"}, tensor<64x64xf32> {dm.name = "q"},
        tensor<64x64xf32> {dm.name = "d"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %g = "dm.all_gather"(%w) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<32xf32>) -> tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%empty : tensor<64x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
  } -> tensor<64x64xf32>
  %p = linalg.matmul ins(%a, %a : tensor<64x64xf32>, tensor<64x64xf32>) outs(%zeros : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %c = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %g : tensor<64x64xf32>, tensor<64xf32>) outs(%empty : tensor<64x64xf32>) {
    ^bb0(%in: f32, %scale: f32, %out: f32):
      %s = arith.mulf %in, %scale : f32
      linalg.yield %s : f32
  } -> tensor<64x64xf32>
  %r = "dm.all_reduce"(%v) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%empty : tensor<64x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.mulf %in, %in : f32
      linalg.yield %s : f32
  } -> tensor<64x64xf32>
  %q = linalg.matmul ins(%b, %b : tensor<64x64xf32>, tensor<64x64xf32>) outs(%zeros : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b, %r : tensor<64x64xf32>, tensor<64xf32>) outs(%empty : tensor<64x64xf32>) {
    ^bb0(%in: f32, %scale: f32, %out: f32):
      %s = arith.mulf %in, %scale : f32
      linalg.yield %s : f32
  } -> tensor<64x64xf32>
  return %p, %c, %q, %d : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Near miss: a large weight.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.+]] = "dm.all_gather"(%arg1)
// CHECK: %[[A:.+]] = "dm.kernel"(%arg0) {body = @elementwise
// CHECK: "dm.kernel"(%[[A]], %[[G]]) {body = @elementwise
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x32768xf32> {dm.name = "x"}, %w: tensor<16384xf32> {dm.name = "w"},
                %m: tensor<32768x4xf32> {dm.name = "m"})
    -> (tensor<4x4xf32> {dm.name = "p"}, tensor<4x32768xf32> {dm.name = "c"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x32768xf32>
  %small = tensor.empty() : tensor<4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%small : tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "dm.all_gather"(%w) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<16384xf32>) -> tensor<32768xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x32768xf32>) outs(%empty : tensor<4x32768xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
  } -> tensor<4x32768xf32>
  %p = linalg.matmul ins(%a, %m : tensor<4x32768xf32>, tensor<32768x4xf32>) outs(%zeros : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %g : tensor<4x32768xf32>, tensor<32768xf32>) outs(%empty : tensor<4x32768xf32>) {
    ^bb0(%in: f32, %scale: f32, %out: f32):
      %s = arith.mulf %in, %scale : f32
      linalg.yield %s : f32
  } -> tensor<4x32768xf32>
  return %p, %c : tensor<4x4xf32>, tensor<4x32768xf32>
}

// -----

// Near miss: a small weight that is computed before it is gathered.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.+]] = "dm.all_gather"
// CHECK: %[[A:.+]] = "dm.kernel"(%arg0) {body = @elementwise
// CHECK: "dm.kernel"(%[[A]], %[[G]]) {body = @elementwise
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x64xf32> {dm.name = "x"}, %w: tensor<32xf32> {dm.name = "w"},
                %m: tensor<64x4xf32> {dm.name = "m"})
    -> (tensor<4x4xf32> {dm.name = "p"}, tensor<4x64xf32> {dm.name = "c"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x64xf32>
  %small = tensor.empty() : tensor<4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%small : tensor<4x4xf32>) -> tensor<4x4xf32>
  %none = tensor.empty() : tensor<32xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%w : tensor<32xf32>) outs(%none : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
  } -> tensor<32xf32>
  %g = "dm.all_gather"(%v) {group = #dm.group<@mesh, ["dp"]>, dim = 0 : i64} : (tensor<32xf32>) -> tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf32>) outs(%empty : tensor<4x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
  } -> tensor<4x64xf32>
  %p = linalg.matmul ins(%a, %m : tensor<4x64xf32>, tensor<64x4xf32>) outs(%zeros : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %g : tensor<4x64xf32>, tensor<64xf32>) outs(%empty : tensor<4x64xf32>) {
    ^bb0(%in: f32, %scale: f32, %out: f32):
      %s = arith.mulf %in, %scale : f32
      linalg.yield %s : f32
  } -> tensor<4x64xf32>
  return %p, %c : tensor<4x4xf32>, tensor<4x64xf32>
}
