// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cpu"/' %s | dmc-opt - -p dm-form-kernels --split-input-file | %FileCheck %s --check-prefix=CPU

// On a GPU, small kernels over the same loops that are independent of each other share a launch, at the first's place.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: tensor<64xf32> {{[^%]+}}, %[[B:[^:]+]]: tensor<64xf32>
// CHECK-NEXT: %[[P:.+]]:2 = "dm.kernel"(%[[A]], %[[B]]) {body = @elementwise_0,
// CHECK-NEXT: %[[S:.+]]:2 = "dm.kernel"(%[[P]]#0, %[[P]]#1) {body = @reduce_0,
// CHECK-NEXT: return %[[P]]#0, %[[P]]#1, %[[S]]#0, %[[S]]#1
// CPU-LABEL: func.func @step
// CPU-COUNT-4: "dm.kernel"
#each = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<64xf32> {dm.name = "a"}, %b: tensor<64xf32> {dm.name = "b"})
    -> (tensor<64xf32> {dm.name = "p"}, tensor<64xf32> {dm.name = "q"}, tensor<f32> {dm.name = "s"},
        tensor<f32> {dm.name = "t"}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %p = math.tanh %a : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#each, #one], iterator_types = ["reduction"]} ins(%p : tensor<64xf32>)
      outs(%zero : tensor<f32>) {
    ^bb0(%in: f32, %sum: f32):
      %0 = arith.addf %in, %sum : f32
      linalg.yield %0 : f32
  } -> tensor<f32>
  %q = math.exp %b : tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#each, #one], iterator_types = ["reduction"]} ins(%q : tensor<64xf32>)
      outs(%zero : tensor<f32>) {
    ^bb0(%in: f32, %sum: f32):
      %0 = arith.addf %in, %sum : f32
      linalg.yield %0 : f32
  } -> tensor<f32>
  return %p, %q, %s, %t : tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>
}
}

// -----

// Not over other loops, nor what reads the other, nor integers, nor large tensors, which take longer than a launch.
// CPU-LABEL: func.func @step
// CHECK-LABEL: func.func @step
// CHECK-COUNT-7: "dm.kernel"
// CHECK-NOT: "dm.kernel"
// CHECK: return
module attributes {dm.target = "cuda"} {
func.func @step(%a: tensor<64xf32> {dm.name = "a"}, %b: tensor<32xf32> {dm.name = "b"},
                %m: tensor<48xi64> {dm.name = "m"}, %n: tensor<48xi64> {dm.name = "n"},
                %x: tensor<32768xf32> {dm.name = "x"}, %y: tensor<32768xf32> {dm.name = "y"})
    -> (tensor<64xf32> {dm.name = "p"}, tensor<32xf32> {dm.name = "q"}, tensor<48xi64> {dm.name = "r"},
        tensor<48xi64> {dm.name = "s"}, tensor<32768xf32> {dm.name = "t"}, tensor<32768xf32> {dm.name = "u"},
        tensor<8x8xf32> {dm.name = "v"}) {
  %p = math.tanh %a : tensor<64xf32>
  %square = tensor.expand_shape %p [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %empty = tensor.empty() : tensor<8x8xf32>
  %v = linalg.transpose ins(%square : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) permutation = [1, 0]
  %q = math.exp %b : tensor<32xf32>
  %r = arith.addi %m, %m : tensor<48xi64>
  %s = arith.muli %n, %n : tensor<48xi64>
  %t = math.exp %x : tensor<32768xf32>
  %u = math.tanh %y : tensor<32768xf32>
  return %p, %q, %r, %s, %t, %u, %v : tensor<64xf32>, tensor<32xf32>, tensor<48xi64>, tensor<48xi64>,
      tensor<32768xf32>, tensor<32768xf32>, tensor<8x8xf32>
}
}

// -----

// What nothing reads, such as new state, may wait for two movements: nothing is delayed. What two movements read is
// ready at once.
// CHECK-LABEL: func.func @step
// CHECK: %[[U:.+]]:2 = "dm.kernel"(%arg0, %arg1)
// CHECK: %[[R:.+]] = "dm.all_reduce"(%[[U]]#0)
// CHECK: %[[S:.+]] = "dm.all_reduce"(%[[U]]#1)
// CHECK: %[[P:.+]]:2 = "dm.kernel"(%[[R]], %[[S]])
// CHECK: return %[[P]]#0, %[[P]]#1
module attributes {dm.target = "cuda"} {
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%a: tensor<64xf32> {dm.name = "a"}, %b: tensor<64xf32> {dm.name = "b"})
    -> (tensor<64xf32> {dm.name = "p"}, tensor<64xf32> {dm.name = "q"}) {
  %u = math.tanh %a : tensor<64xf32>
  %v = math.exp %b : tensor<64xf32>
  %r = "dm.all_reduce"(%u) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %p = math.exp %r : tensor<64xf32>
  %s = "dm.all_reduce"(%v) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %q = math.tanh %s : tensor<64xf32>
  return %p, %q : tensor<64xf32>, tensor<64xf32>
}
}

// -----

// Near misses: what one movement reads is ready before what another reads, and the readers of what waits for one
// movement do not wait for the other.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"(%arg0) {body = @elementwise_0
// CHECK: %[[R:.+]] = "dm.all_reduce"
// CHECK: %[[V:.+]] = "dm.kernel"(%{{[^,]+}}) {body = @elementwise_2
// CHECK: %[[S:.+]] = "dm.all_reduce"(%[[V]])
// CHECK: "dm.kernel"(%[[R]]) {body = @elementwise_2
// CHECK: "dm.kernel"(%[[S]]) {body = @elementwise_0
module attributes {dm.target = "cuda"} {
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%a: tensor<64xf32> {dm.name = "a"}, %x: tensor<32768xf32> {dm.name = "x"},
                %y: tensor<64x64xf32> {dm.name = "y"}, %z: tensor<64x64xf32> {dm.name = "z"})
    -> (tensor<1x64xf32> {dm.name = "p"}, tensor<1x64xf32> {dm.name = "q"}, tensor<32768xf32> {dm.name = "w"}) {
  %u = math.tanh %a : tensor<64xf32>
  %r = "dm.all_reduce"(%u) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %w = math.sin %x : tensor<32768xf32>
  %part = tensor.extract_slice %w[0] [64] [1] : tensor<32768xf32> to tensor<64xf32>
  %v = math.exp %part : tensor<64xf32>
  %s = "dm.all_reduce"(%v) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %c = math.exp %r : tensor<64xf32>
  %d = math.tanh %s : tensor<64xf32>
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x64xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x64xf32>) -> tensor<1x64xf32>
  %e = tensor.expand_shape %c [[0, 1]] output_shape [1, 64] : tensor<64xf32> into tensor<1x64xf32>
  %p = linalg.matmul ins(%e, %y : tensor<1x64xf32>, tensor<64x64xf32>) outs(%1 : tensor<1x64xf32>) -> tensor<1x64xf32>
  %f = tensor.expand_shape %d [[0, 1]] output_shape [1, 64] : tensor<64xf32> into tensor<1x64xf32>
  %q = linalg.matmul ins(%f, %z : tensor<1x64xf32>, tensor<64x64xf32>) outs(%1 : tensor<1x64xf32>) -> tensor<1x64xf32>
  return %p, %q, %w : tensor<1x64xf32>, tensor<1x64xf32>, tensor<32768xf32>
}
}

// -----

// Near miss: what reads a part of a result, in a kernel of several operations, would wait for a movement with the result.
// CHECK-LABEL: func.func @step
// CHECK: %[[V:.+]] = "dm.kernel"(%arg0)
// CHECK: %[[PART:.+]] = tensor.extract_slice %[[V]]
// CHECK: "dm.kernel"(%[[PART]], %arg2)
// CHECK: %[[R:.+]] = "dm.all_reduce"(%arg1)
// CHECK: "dm.kernel"(%[[V]], %[[R]])
#each = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
module attributes {dm.target = "cuda"} {
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cuda">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%a: tensor<64xf32> {dm.name = "a"}, %b: tensor<64xf32> {dm.name = "b"},
                %y: tensor<32x1024xf32> {dm.name = "y"})
    -> (tensor<32x1024xf32> {dm.name = "p"}, tensor<32x1024xf32> {dm.name = "o"}, tensor<64xf32> {dm.name = "q"}) {
  %v = math.exp %a : tensor<64xf32>
  %part = tensor.extract_slice %v[0] [32] [1] : tensor<64xf32> to tensor<32xf32>
  %0 = tensor.empty() : tensor<32x1024xf32>
  %t = linalg.generic {indexing_maps = [#row, #all, #all],
      iterator_types = ["parallel", "parallel"]} ins(%part, %y : tensor<32xf32>, tensor<32x1024xf32>)
      outs(%0 : tensor<32x1024xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %s = arith.addf %i, %j : f32
      linalg.yield %s : f32
  } -> tensor<32x1024xf32>
  %p = math.tanh %t : tensor<32x1024xf32>
  %m = "dm.all_reduce"(%p) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<32x1024xf32>) -> tensor<32x1024xf32>
  %n = "dm.all_reduce"(%p) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"max">}
      : (tensor<32x1024xf32>) -> tensor<32x1024xf32>
  %r = "dm.all_reduce"(%b) {group = #dm.group<@mesh, ["dp"]>, accumulate = f32, reduction = #dm.reduction<"sum">}
      : (tensor<64xf32>) -> tensor<64xf32>
  %1 = tensor.empty() : tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#each, #each, #each],
      iterator_types = ["parallel"]} ins(%v, %r : tensor<64xf32>, tensor<64xf32>) outs(%1 : tensor<64xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %s = arith.addf %i, %j : f32
      linalg.yield %s : f32
  } -> tensor<64xf32>
  return %m, %n, %q : tensor<32x1024xf32>, tensor<32x1024xf32>, tensor<64xf32>
}
}
