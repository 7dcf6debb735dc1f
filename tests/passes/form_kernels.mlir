// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// Equal computations share a body, which has constants of its own; a reshape between kernels stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]]) {body = @[[BODY:.+]], bytes = 256 : i64, flops = 32 : i64}
// CHECK-NEXT: %[[R:.+]] = "dm.all_reduce"(%[[A]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[R]]) {body = @[[BODY]], bytes = 256 : i64, flops = 32 : i64}
// CHECK-NEXT: %[[F:.+]] = tensor.collapse_shape %[[B]]
// CHECK-NEXT: return %[[F]]
// CHECK: func.func private @[[BODY]]({{.+}}) -> tensor<4x8xf32> attributes {dm.kind = "elementwise"}
// CHECK: arith.constant 2.0
#id = affine_map<(i, j) -> (i, j)>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x8xf32> {dm.name = "x"}) -> (tensor<32xf32> {dm.name = "y"}) {
  %two = arith.constant 2.0 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.mulf %in, %two : f32
      linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = "dm.all_reduce"(%a) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.mulf %in, %two : f32
      linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %f = tensor.collapse_shape %b [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  return %f : tensor<32xf32>
}

// -----

// Each rank takes other columns: a variant for each. Its rows are contiguous, and cost nothing.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[X]]) {body = @slice_0, bytes = 128 : i64, flops = 0 : i64, group = #dm.group<@mesh, ["dp"]>, variants = [@slice_0, @slice_1]}
// CHECK-NEXT: %[[R:.+]] = "dm.all_slice"(%[[X]]) {dim = 0
// CHECK-NEXT: return %[[C]], %[[R]]
// CHECK: func.func private @slice_0
// CHECK-NEXT: tensor.extract_slice %{{.+}}[0, 0] [4, 4] [1, 1]
// CHECK: func.func private @slice_1
// CHECK-NEXT: tensor.extract_slice %{{.+}}[0, 4] [4, 4] [1, 1]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x8xf32> {dm.name = "x"})
    -> (tensor<4x4xf32> {dm.name = "columns"}, tensor<2x8xf32> {dm.name = "rows"}) {
  %c = "dm.all_slice"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %r = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return %c, %r : tensor<4x4xf32>, tensor<2x8xf32>
}

// -----

// What is returned or moved must be in memory, be it a constant; a barrier to fusion has done its duty.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"() {body = @[[CONSTANT:.+]], bytes = 16 : i64, flops = 0 : i64}
// CHECK-NEXT: return %[[X]], %[[C]]
// CHECK: func.func private @[[CONSTANT]]() -> tensor<4xf32>
func.func @step(%x: tensor<4xf32> {dm.name = "x"}) -> (tensor<4xf32> {dm.name = "y"}, tensor<4xf32> {dm.name = "z"}) {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  %b = "iree_tensor_ext.compute_barrier_start"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// A reshape that one product reads between kernels is a part of the body of another, which reads `%x` in two shapes.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: tensor<6x4xf32> {{[^%]+}}, %[[B:[^:]+]]: tensor<2x4x3xf32> {{[^%]+}}, %[[C:[^:]+]]: tensor<4x4xf32>
// CHECK-NEXT: %[[X:.+]] = "dm.kernel"(%[[A]]) {body = @elementwise_0
// CHECK-NEXT: %[[Y:.+]] = tensor.expand_shape %[[X]]
// CHECK-NEXT: %[[P:.+]] = "dm.kernel"(%[[Y]], %[[B]]) {body = @matmul_0
// CHECK-NEXT: %[[R:.+]] = "dm.kernel"(%[[X]], %[[C]]) {body = @matmul_1
// CHECK-NEXT: return %[[P]], %[[R]]
// CHECK: func.func private @matmul_1(%[[IN:[^:]+]]: tensor<6x4xf32>
// CHECK-NEXT: %[[OTHER:.+]] = tensor.expand_shape %[[IN]]
// CHECK: linalg.matmul ins(%[[IN]],
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %[[OTHER]] :
func.func @step(%a: tensor<6x4xf32> {dm.name = "a"}, %b: tensor<2x4x3xf32> {dm.name = "b"},
                %c: tensor<4x4xf32> {dm.name = "c"})
    -> (tensor<2x3x3xf32> {dm.name = "p"}, tensor<2x3x4xf32> {dm.name = "r"}) {
  %zero = arith.constant 0.0 : f32
  %flat = tensor.empty() : tensor<6x4xf32>
  %batch = tensor.empty() : tensor<2x3x4xf32>
  %square = tensor.empty() : tensor<2x3x3xf32>
  %flat0 = linalg.fill ins(%zero : f32) outs(%flat : tensor<6x4xf32>) -> tensor<6x4xf32>
  %square0 = linalg.fill ins(%zero : f32) outs(%square : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %x = math.exp %a : tensor<6x4xf32>
  %y = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %p = linalg.batch_matmul ins(%y, %b : tensor<2x3x4xf32>, tensor<2x4x3xf32>) outs(%square0 : tensor<2x3x3xf32>)
      -> tensor<2x3x3xf32>
  %q = linalg.matmul ins(%x, %c : tensor<6x4xf32>, tensor<4x4xf32>) outs(%flat0 : tensor<6x4xf32>) -> tensor<6x4xf32>
  %s = tensor.expand_shape %q [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %r = arith.addf %s, %y : tensor<2x3x4xf32>
  return %p, %r : tensor<2x3x3xf32>, tensor<2x3x4xf32>
}
