// RUN: not dmc-opt %s -p dm-inline-composites{keep_whole} 2>&1 | %FileCheck %s

// What is opened anyway, because no kernel takes heads of this width, is not for the plan to open.
// CHECK: decompose("h.*"): has no effect: its composites are opened anyway (has no kernel (flash_attention: heads are wider than 128
// CHECK-NEXT: hint: leave it out
module attributes {dm.verbs = [{verb = "decompose", pattern = "h.*"}]} {
  func.func @step(%x: tensor<2x4x16x160xbf16>, %seed: tensor<i64>) -> tensor<2x4x16x160xbf16> {
    %y, %level = "dm.composite"(%x, %x, %x, %seed, %seed) {kind = "attention", decomposition = @attention_0,
        parameters = {p = 0.0 : f64, scale = 0.125 : f64, causal = false}}
        : (tensor<2x4x16x160xbf16>, tensor<2x4x16x160xbf16>, tensor<2x4x16x160xbf16>, tensor<i64>, tensor<i64>)
        -> (tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>) loc("h.0.attn#attention")
    return %y : tensor<2x4x16x160xbf16>
  }
  func.func private @attention_0(%q: tensor<2x4x16x160xbf16>, %k: tensor<2x4x16x160xbf16>, %v: tensor<2x4x16x160xbf16>,
      %seed: tensor<i64>, %draw: tensor<i64>) -> (tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>) {
    %0 = tensor.empty() : tensor<2x4x16x1xf32>
    return %q, %0 : tensor<2x4x16x160xbf16>, tensor<2x4x16x1xf32>
  }
}
