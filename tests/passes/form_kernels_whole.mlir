// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// Queries, keys and values are slices of one projection, and the result is wanted by rows: all of it is one kernel.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<2x8x96xf32> {{[^%]+}}, %[[SEED:[^:]+]]: tensor<i64>
// CHECK-NEXT: %[[Y:.+]]:2 = "dm.kernel"(%[[W]], %[[SEED]]) {body = @attention_0, bytes = 8336 : i64, flops = 9216 : i64}
// CHECK-NEXT: %[[R:.+]] = tensor.collapse_shape %[[Y]]#0 {{.+}} : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @attention_0(%[[IN:[^:]+]]: tensor<2x8x96xf32>, %[[S:[^:]+]]: tensor<i64>) {{.+}} attributes {dm.kind = "matmul"}
// CHECK: tensor.extract_slice %[[IN]][0, 0, 0]
// CHECK: %[[Q:.+]] = linalg.transpose
// CHECK: tensor.extract_slice %[[IN]][0, 0, 32]
// CHECK: %[[K:.+]] = linalg.transpose
// CHECK: tensor.extract_slice %[[IN]][0, 0, 64]
// CHECK: %[[V:.+]] = linalg.transpose
// CHECK: %[[O:.+]]:2 = "dm.composite"(%[[Q]], %[[K]], %[[V]], %[[S]], %[[S]]) {decomposition = @attention,
// CHECK: %[[T:.+]] = linalg.transpose ins(%[[O]]#0
// CHECK: return %[[T]], %[[O]]#1
func.func @step(%w: tensor<2x8x96xf32> {dm.name = "w"}, %seed: tensor<i64> {dm.name = "seed"})
    -> (tensor<2x8x32xf32> {dm.name = "y"}) {
  %e = tensor.empty() : tensor<2x2x8x16xf32>
  %q0 = tensor.extract_slice %w[0, 0, 0] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xf32> to tensor<2x8x32xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %q = linalg.transpose ins(%q1 : tensor<2x8x2x16xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %k0 = tensor.extract_slice %w[0, 0, 32] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xf32> to tensor<2x8x32xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %k = linalg.transpose ins(%k1 : tensor<2x8x2x16xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %v0 = tensor.extract_slice %w[0, 0, 64] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xf32> to tensor<2x8x32xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %v = linalg.transpose ins(%v1 : tensor<2x8x2x16xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %y, %level = "dm.composite"(%q, %k, %v, %seed, %seed) {kind = "attention", decomposition = @attention,
      parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>)
  %f = tensor.empty() : tensor<2x8x2x16xf32>
  %t = linalg.transpose ins(%y : tensor<2x2x8x16xf32>) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  return %r : tensor<2x8x32xf32>
}
func.func private @attention(%q: tensor<2x2x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>, %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>) {
  %0 = tensor.empty() : tensor<2x2x8x1xf32>
  return %q, %0 : tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>
}

// -----

// Near misses: queries whose rows are not contiguous are transposed by another kernel, and keys that begin where no pointer
// may are cut out by one; the values are read where they lie. A result is given as it is where its rows are turned.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2x2x16x8xf32> {{[^%]+}}, %[[W:[^:]+]]: tensor<2x8x96xf32>
// CHECK: %[[Q:.+]] = "dm.kernel"(%[[X]]) {body = @transpose_0
// CHECK-NEXT: %[[S:.+]] = "dm.kernel"(%[[W]]) {body = @slice_0
// CHECK-NEXT: %[[K:.+]] = tensor.expand_shape %[[S]]
// CHECK-NEXT: %[[Y:.+]]:2 = "dm.kernel"(%[[Q]], %[[K]], %[[W]], %{{.+}}) {body = @attention_0
// CHECK-NEXT: %[[T:.+]] = "dm.kernel"(%[[Y]]#0) {body = @transpose_1
// CHECK-NEXT: return %[[Y]]#0, %[[T]]
// CHECK-LABEL: func.func private @attention_0
// CHECK: %[[O:.+]]:2 = "dm.composite"(%arg0,
// CHECK-NEXT: return %[[O]]#0, %[[O]]#1
func.func @step(%x: tensor<2x2x16x8xf32> {dm.name = "x"}, %w: tensor<2x8x96xf32> {dm.name = "w"},
                %seed: tensor<i64> {dm.name = "seed"})
    -> (tensor<2x2x8x16xf32> {dm.name = "y"}, tensor<2x2x16x8xf32> {dm.name = "t"}) {
  %e = tensor.empty() : tensor<2x2x8x16xf32>
  %q = linalg.transpose ins(%x : tensor<2x2x16x8xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 1, 3, 2]
  %k0 = tensor.extract_slice %w[0, 0, 33] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xf32> to tensor<2x8x32xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %k = linalg.transpose ins(%k1 : tensor<2x8x2x16xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %v0 = tensor.extract_slice %w[0, 0, 64] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xf32> to tensor<2x8x32xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %v = linalg.transpose ins(%v1 : tensor<2x8x2x16xf32>) outs(%e : tensor<2x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %y, %level = "dm.composite"(%q, %k, %v, %seed, %seed) {kind = "attention", decomposition = @attention,
      parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>)
  %f = tensor.empty() : tensor<2x2x16x8xf32>
  %t = linalg.transpose ins(%y : tensor<2x2x8x16xf32>) outs(%f : tensor<2x2x16x8xf32>) permutation = [0, 1, 3, 2]
  return %y, %t : tensor<2x2x8x16xf32>, tensor<2x2x16x8xf32>
}
func.func private @attention(%q: tensor<2x2x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>, %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>) {
  %0 = tensor.empty() : tensor<2x2x8x1xf32>
  return %q, %0 : tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>
}

// -----

// The gradients of one projection are one result; the forward pass gives its result by rows, and the backward pass reads
// it there; the gradient of the bias, which nothing reads, is none.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[D:[^:]+]]: tensor<2x2x8x16xf32> {{[^%]+}}, %[[Q:[^:]+]]: tensor<2x2x8x16xf32> {{[^%]+}}, %[[SEED:[^:]+]]: tensor<i64>
// CHECK-NEXT: %[[Y:.+]]:2 = "dm.kernel"(%[[Q]], %[[SEED]]) {body = @attention_0
// CHECK-NEXT: %[[G:.+]] = "dm.kernel"(%[[D]], %[[Q]], %[[Y]]#0, %[[Y]]#1, %[[SEED]]) {body = @attention_backward_0
// CHECK-NEXT: return %[[Y]]#0, %[[G]]
// CHECK: func.func private @attention_backward_0{{.+}} -> tensor<2x8x96xf32>
// CHECK: linalg.transpose ins(%arg2 : tensor<2x8x2x16xf32>)
// CHECK: %[[B:.+]]:4 = "dm.composite"
// CHECK-COUNT-3: linalg.transpose
// CHECK: %[[C:.+]] = tensor.concat dim(2)
// CHECK-NEXT: return %[[C]]
func.func @step(%d: tensor<2x2x8x16xf32> {dm.name = "d"}, %q: tensor<2x2x8x16xf32> {dm.name = "q"}, %seed: tensor<i64> {dm.name = "seed"})
    -> (tensor<2x8x2x16xf32> {dm.name = "t"}, tensor<2x8x96xf32> {dm.name = "g"}) {
  %y, %level = "dm.composite"(%q, %q, %q, %seed, %seed) {kind = "attention", decomposition = @attention,
      parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>)
  %f = tensor.empty() : tensor<2x8x2x16xf32>
  %t = linalg.transpose ins(%y : tensor<2x2x8x16xf32>) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %dq, %dk, %dv, %db = "dm.composite"(%d, %q, %q, %q, %y, %level, %seed, %seed) {kind = "attention_backward",
      decomposition = @backward, parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>)
  %dq1 = linalg.transpose ins(%dq : tensor<2x2x8x16xf32>) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %dq2 = tensor.collapse_shape %dq1 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %dk1 = linalg.transpose ins(%dk : tensor<2x2x8x16xf32>) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %dk2 = tensor.collapse_shape %dk1 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %dv1 = linalg.transpose ins(%dv : tensor<2x2x8x16xf32>) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %dv2 = tensor.collapse_shape %dv1 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %g = tensor.concat dim(2) %dq2, %dk2, %dv2 : (tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x96xf32>
  return %t, %g : tensor<2x8x2x16xf32>, tensor<2x8x96xf32>
}
func.func private @attention(%q: tensor<2x2x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>, %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>) {
  %0 = tensor.empty() : tensor<2x2x8x1xf32>
  return %q, %0 : tensor<2x2x8x16xf32>, tensor<2x2x8x1xf32>
}
func.func private @backward(%d: tensor<2x2x8x16xf32>, %q: tensor<2x2x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>, %y: tensor<2x2x8x16xf32>, %level: tensor<2x2x8x1xf32>, %seed: tensor<i64>, %draw: tensor<i64>)
    -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>) {
  %0 = tensor.empty() : tensor<f32>
  return %q, %k, %v, %0 : tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>
}

// -----

// Logits are read in a larger tensor, and the gradient is given with its padding, whose zero lies outside; a gradient
// that is read without it, too, is padded by a kernel of its own.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[ONE:[^:]+]]: tensor<f32> {{[^%]+}}, %[[L:[^:]+]]: tensor<8x128xf32>
// CHECK: %[[G:.+]] = "dm.kernel"(%[[ONE]], %[[L]], {{.+}}) {body = @softmax_cross_entropy_backward_0, {{.+}} -> tensor<8x128xf32>
// CHECK: "dm.kernel"({{.+}}) {body = @softmax_cross_entropy_backward_1, {{.+}} -> tensor<8x67xf32>
// CHECK: body = @pad_0
// CHECK: func.func private @softmax_cross_entropy_backward_0
// CHECK: %[[C:.+]] = tensor.extract_slice %arg1[0, 0] [8, 67] [1, 1]
// CHECK: %[[GRADIENT:.+]] = "dm.composite"(%arg0, %[[C]],
// CHECK: %[[ZERO:.+]] = arith.constant 0.000000e+00
// CHECK: tensor.pad %[[GRADIENT]] low[0, 0] high[0, 61]
// CHECK: tensor.yield %[[ZERO]]
func.func @step(%one: tensor<f32> {dm.name = "one"}, %l: tensor<8x128xf32> {dm.name = "l"}, %target: tensor<8xi64> {dm.name = "target"},
      %level: tensor<8xf32> {dm.name = "level"})
    -> (tensor<8x128xf32> {dm.name = "a"}, tensor<8x128xf32> {dm.name = "b"}, tensor<8x67xf32> {dm.name = "c"}) {
  %zero = arith.constant 0.0 : f32
  %logits = tensor.extract_slice %l[0, 0] [8, 67] [1, 1] : tensor<8x128xf32> to tensor<8x67xf32>
  %g = "dm.composite"(%one, %logits, %target, %level) {kind = "softmax_cross_entropy_backward", decomposition = @backward,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.0 : f64}}
      : (tensor<f32>, tensor<8x67xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x67xf32>
  %a = tensor.pad %g low[0, 0] high[0, 61] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
  } : tensor<8x67xf32> to tensor<8x128xf32>
  %h = "dm.composite"(%one, %logits, %target, %level) {kind = "softmax_cross_entropy_backward", decomposition = @backward,
      parameters = {ignore_index = -100 : i64, label_smoothing = 0.1 : f64}}
      : (tensor<f32>, tensor<8x67xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x67xf32>
  %b = tensor.pad %h low[0, 0] high[0, 61] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
  } : tensor<8x67xf32> to tensor<8x128xf32>
  return %a, %b, %h : tensor<8x128xf32>, tensor<8x128xf32>, tensor<8x67xf32>
}
func.func private @backward(%one: tensor<f32>, %l: tensor<8x67xf32>, %t: tensor<8xi64>, %v: tensor<8xf32>) -> tensor<8x67xf32> {
  return %l : tensor<8x67xf32>
}

// -----

// The gradients of queries, keys and values are columns of one matrix, whose rows are added up by the same kernel; what
// adds up its columns reads it.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.+]]:2 = "dm.kernel"({{.+}}) {body = @attention_backward_0, {{.+}} -> (tensor<2x8x96xf32>, tensor<96xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[Y]]#0
// CHECK-NEXT: %[[OTHER:.+]] = "dm.kernel"(%[[FLAT]]) {body = @reduce_0
// CHECK-NEXT: return %[[Y]]#0, %[[Y]]#1, %[[OTHER]]
// CHECK-LABEL: func.func private @attention_backward_0
// CHECK: %[[D:.+]]:4 = "dm.composite"
// CHECK: %[[WIDE:.+]] = tensor.concat dim(2)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[WIDE]] {{.+}} into tensor<16x96xf32>
// CHECK: %[[ZERO:.+]] = linalg.fill
// CHECK: %[[SUMS:.+]] = linalg.generic {{.+}} iterator_types = ["reduction", "parallel"]} ins(%[[FLAT]] : {{.+}}) outs(%[[ZERO]]
// CHECK: return %[[WIDE]], %[[SUMS]]
#all = affine_map<(i, j) -> (i, j)>
#columns = affine_map<(i, j) -> (j)>
#rows = affine_map<(i, j) -> (i)>
func.func @step(%x: tensor<2x2x8x16xf32> {dm.name = "x"}, %level: tensor<2x2x8x1xf32> {dm.name = "level"},
                %seed: tensor<i64> {dm.name = "seed"})
    -> (tensor<2x8x96xf32> {dm.name = "y"}, tensor<96xf32> {dm.name = "sums"}, tensor<16xf32> {dm.name = "other"}) {
  %dq, %dk, %dv, %none = "dm.composite"(%x, %x, %x, %x, %x, %level, %seed, %seed) {kind = "attention_backward",
      decomposition = @backward, parameters = {bias = none, p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>,
         tensor<2x2x8x1xf32>, tensor<i64>, tensor<i64>)
      -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>)
  %e = tensor.empty() : tensor<2x8x2x16xf32>
  %q0 = linalg.transpose ins(%dq : tensor<2x2x8x16xf32>) outs(%e : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.collapse_shape %q0 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %k0 = linalg.transpose ins(%dk : tensor<2x2x8x16xf32>) outs(%e : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %k = tensor.collapse_shape %k0 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %v0 = linalg.transpose ins(%dv : tensor<2x2x8x16xf32>) outs(%e : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %v0 [[0], [1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<2x8x32xf32>
  %y = tensor.concat dim(2) %q, %k, %v : (tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x96xf32>
  %flat = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x8x96xf32> into tensor<16x96xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<96xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%f : tensor<96xf32>) -> tensor<96xf32>
  %sums = linalg.generic {indexing_maps = [#all, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%flat : tensor<16x96xf32>) outs(%begin : tensor<96xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<96xf32>
  %g = tensor.empty() : tensor<16xf32>
  %first = linalg.fill ins(%zero : f32) outs(%g : tensor<16xf32>) -> tensor<16xf32>
  %other = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%flat : tensor<16x96xf32>) outs(%first : tensor<16xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<16xf32>
  return %y, %sums, %other : tensor<2x8x96xf32>, tensor<96xf32>, tensor<16xf32>
}
func.func private @backward(%d: tensor<2x2x8x16xf32>, %q: tensor<2x2x8x16xf32>, %k: tensor<2x2x8x16xf32>,
    %v: tensor<2x2x8x16xf32>, %o: tensor<2x2x8x16xf32>, %l: tensor<2x2x8x1xf32>, %seed: tensor<i64>, %draw: tensor<i64>)
    -> (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>) {
  %0 = tensor.empty() : tensor<f32>
  return %q, %k, %v, %0 : tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<f32>
}
