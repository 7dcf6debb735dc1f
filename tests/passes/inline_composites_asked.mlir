// RUN: dmc-opt %s -p dm-inline-composites{keep_whole} --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-inline-composites{keep_whole reasons=true}" --split-input-file 2>&1 >/dev/null | %FileCheck %s --check-prefix=WHY

// The attention of the layer that the plan names is opened, that of another one stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2x4x16x64xbf16>
// CHECK: %[[A:.+]] = arith.subf %[[X]], %[[X]]
// CHECK: %[[B:.+]]:2 = "dm.composite"(%[[A]], %[[A]], %[[A]],
// CHECK: return %[[B]]#0
// WHY: attention{{ +}}1{{ +}}stays
// WHY: attention{{ +}}1{{ +}}the plan: decompose("h.0.*")
module attributes {dm.verbs = [{verb = "decompose", pattern = "h.0.*"}]} {
  func.func @step(%x: tensor<2x4x16x64xbf16>, %seed: tensor<i64>, %draw: tensor<i64>) -> tensor<2x4x16x64xbf16> {
    %y, %level = "dm.composite"(%x, %x, %x, %seed, %draw) {kind = "attention", decomposition = @attention_0,
        parameters = {p = 0.1 : f64, scale = 0.125 : f64, causal = true}}
        : (tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<i64>, tensor<i64>)
        -> (tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>) loc("h.0.attn#attention")
    %z, %other = "dm.composite"(%y, %y, %y, %seed, %draw) {kind = "attention", decomposition = @attention_0,
        parameters = {p = 0.1 : f64, scale = 0.125 : f64, causal = true}}
        : (tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<2x4x16x64xbf16>, tensor<i64>, tensor<i64>)
        -> (tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>) loc("h.1.attn#attention")
    return %z : tensor<2x4x16x64xbf16>
  }
  func.func private @attention_0(%q: tensor<2x4x16x64xbf16>, %k: tensor<2x4x16x64xbf16>, %v: tensor<2x4x16x64xbf16>,
      %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>) {
    %0 = arith.subf %q, %v : tensor<2x4x16x64xbf16>
    %1 = tensor.empty() : tensor<2x4x16x1xf32>
    return %0, %1 : tensor<2x4x16x64xbf16>, tensor<2x4x16x1xf32>
  }
}
