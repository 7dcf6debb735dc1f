// RUN: dmc-opt %s -p dm-inline-composites{keep_whole} --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p dm-inline-composites --split-input-file | %FileCheck %s --check-prefix=CPU --implicit-check-not=dm.composite
// RUN: dmc-opt %s -p "dm-inline-composites{keep_whole reasons=true}" --split-input-file 2>&1 >/dev/null | %FileCheck %s --check-prefix=WHY

// Attention stays where there is a kernel for it, with what it means; a norm is a part of the kernels around it.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:[^:]+]]: tensor<2x4x16x64xbf16>
// CHECK: %[[N:.+]] = arith.negf %[[Q]]
// CHECK: %[[Y:.+]]:2 = "dm.composite"(%[[N]], %[[N]], %[[N]], %{{.+}}, %{{.+}}) {decomposition = @attention_0, kind = "attention"
// CHECK: return %[[Y]]#0
// CHECK-NOT: @layer_norm_0
// CHECK: func.func private @attention_0
// CHECK-NOT: @layer_norm_0
// CPU-LABEL: func.func @attention
// CPU: arith.subf
// WHY: attention{{ +}}1{{ +}}stays
// WHY: layer_norm{{ +}}1{{ +}}a part of the kernels around it
func.func @attention(%x: tensor<2x4x16x64xbf16>, %seed: tensor<i64>, %draw: tensor<i64>) -> tensor<2x4x16x64xbf16> {
  %n = "dm.composite"(%x) {kind = "layer_norm", decomposition = @layer_norm_0, parameters = {}}
      : (tensor<2x4x16x64xbf16>) -> tensor<2x4x16x64xbf16>
  %y, %level = "dm.composite"(%n, %n, %n, %seed, %draw) {kind = "attention", decomposition = @attention_0,
      parameters = {p = 0.1 : f64, scale = 0.125 : f64, causal = true}}
      : (tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<i64>, tensor<i64>)
      -> (tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>)
  return %y : tensor<2x4x16x64xbf16>
}
func.func private @layer_norm_0(%x: tensor<2x4x16x64xbf16>) -> tensor<2x4x16x64xbf16> {
  %0 = arith.negf %x : tensor<2x4x16x64xbf16>
  return %0 : tensor<2x4x16x64xbf16>
}
func.func private @attention_0(%q: tensor<2x4x16x64xbf16>, %k: tensor<2x4x16x64xbf16>, %v: tensor<2x4x16x64xbf16>,
    %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>) {
  %0 = arith.subf %q, %v : tensor<2x4x16x64xbf16>
  %1 = tensor.empty() : tensor<2x4x16x1xf32>
  return %0, %1 : tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>
}

// -----

// A near miss: no kernel takes heads of this width.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: dm.composite
// CHECK: return
// WHY: flash_attention: heads are wider than 128
func.func @wide(%x: tensor<2x4x16x160xbf16>, %seed: tensor<i64>) -> tensor<2x4x16x160xbf16> {
  %y, %level = "dm.composite"(%x, %x, %x, %seed, %seed) {kind = "attention", decomposition = @attention_0,
      parameters = {p = 0.0 : f64, scale = 0.125 : f64, causal = false}}
      : (tensor<2x4x16x160xbf16>, tensor<2x4x16x160xbf16>, tensor<2x4x16x160xbf16>, tensor<i64>, tensor<i64>) -> (tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>)
  return %y : tensor<2x4x16x160xbf16>
}
func.func private @attention_0(%q: tensor<2x4x16x160xbf16>, %k: tensor<2x4x16x160xbf16>, %v: tensor<2x4x16x160xbf16>, %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>) {
  %0 = tensor.empty() : tensor<2x4x16x1xf32>
  return %q, %0 : tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>
}

// -----

// A near miss: no tensor core multiplies this type.
// CHECK-LABEL: func.func @double
// CHECK-NOT: dm.composite
// CHECK: return
// WHY: flash_attention: operands have different types, or a type without matrix products
func.func @double(%x: tensor<2x4x16x64xf64>, %seed: tensor<i64>) -> tensor<2x4x16x64xf64> {
  %y, %level = "dm.composite"(%x, %x, %x, %seed, %seed) {kind = "attention", decomposition = @attention_0,
      parameters = {p = 0.0 : f64, scale = 0.125 : f64, causal = false}}
      : (tensor<2x4x16x64xf64>, tensor<2x4x16x64xf64>, tensor<2x4x16x64xf64>, tensor<i64>, tensor<i64>) -> (tensor<2x4x16x64xf64>, tensor<2x4x16x1xf32>)
  return %y : tensor<2x4x16x64xf64>
}
func.func private @attention_0(%q: tensor<2x4x16x64xf64>, %k: tensor<2x4x16x64xf64>, %v: tensor<2x4x16x64xf64>, %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x4x16x64xf64>, tensor<2x4x16x1xf32>) {
  %0 = tensor.empty() : tensor<2x4x16x1xf32>
  return %q, %0 : tensor<2x4x16x64xf64>, tensor<2x4x16x1xf32>
}

// -----

// The gradient of the bias cannot be computed, and is not wanted.
// CHECK-LABEL: func.func @unread
// CHECK: "dm.composite"
func.func @unread(%x: tensor<1x2x8x16xf32>, %bias: tensor<1x1x8x8xf32>, %level: tensor<1x2x8x1xf32>, %seed: tensor<i64>) -> tensor<1x2x8x16xf32> {
  %dq, %dk, %dv, %dbias = "dm.composite"(%x, %x, %x, %x, %bias, %x, %level, %seed, %seed)
      {kind = "attention_backward", decomposition = @backward_0,
       parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = false}}
      : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x1xf32>, tensor<i64>, tensor<i64>) -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>)
  return %dq : tensor<1x2x8x16xf32>
}
func.func private @backward_0(%dout: tensor<1x2x8x16xf32>, %q: tensor<1x2x8x16xf32>, %k: tensor<1x2x8x16xf32>, %v: tensor<1x2x8x16xf32>, %bias: tensor<1x1x8x8xf32>, %out: tensor<1x2x8x16xf32>, %level: tensor<1x2x8x1xf32>,
    %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>) {
  return %q, %k, %v, %bias : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>
}

// -----

// A near miss: it is wanted.
// CHECK-LABEL: func.func @read
// CHECK-NOT: dm.composite
// CHECK: return
// WHY: flash_attention_backward: the gradient of the bias is not computed
func.func @read(%x: tensor<1x2x8x16xf32>, %bias: tensor<1x1x8x8xf32>, %level: tensor<1x2x8x1xf32>, %seed: tensor<i64>) -> tensor<1x1x8x8xf32> {
  %dq, %dk, %dv, %dbias = "dm.composite"(%x, %x, %x, %x, %bias, %x, %level, %seed, %seed)
      {kind = "attention_backward", decomposition = @backward_0,
       parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = false}}
      : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x1xf32>, tensor<i64>, tensor<i64>) -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>)
  return %dbias : tensor<1x1x8x8xf32>
}
func.func private @backward_0(%dout: tensor<1x2x8x16xf32>, %q: tensor<1x2x8x16xf32>, %k: tensor<1x2x8x16xf32>, %v: tensor<1x2x8x16xf32>, %bias: tensor<1x1x8x8xf32>, %out: tensor<1x2x8x16xf32>, %level: tensor<1x2x8x1xf32>,
    %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>) {
  return %q, %k, %v, %bias : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x8x8xf32>
}
