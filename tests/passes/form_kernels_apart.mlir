// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-form-kernels{reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=WHY

// Layers that the plan keeps apart have kernels of their own: neither what is before or behind them is fused with them,
// nor another layer. Within a layer, and with its gradient, kernels are fused as ever.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<64xf32>)
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]]) {{.*}}dm.label = "stem"
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[A]]) {{.*}}dm.label = "h.0.act", flops = 128
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[B]]) {{.*}}dm.label = "h.1", flops = 128
// CHECK-NEXT: %[[D:.+]] = "dm.kernel"(%[[C]]) {{.*}}dm.label = "head", flops = 128
// CHECK-NEXT: return %[[D]]
// WHY: of another module, which the plan keeps apart
module attributes {dm.verbs = [{verb = "keep_apart", pattern = "h.*"}]} {
  func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
    %a = math.tanh %x : tensor<64xf32> loc("stem#aten.tanh")
    %b = math.exp %a : tensor<64xf32> loc("h.0.act#aten.exp")
    %c = math.tanh %b : tensor<64xf32> loc("h.0.act#aten.tanh")
    %d = math.exp %c : tensor<64xf32> loc("h.1#aten.exp")
    %e = math.tanh %d : tensor<64xf32> loc("h.1.act#aten.tanh, backward")
    %f = math.tanh %e : tensor<64xf32> loc("head#aten.tanh")
    %g = math.exp %f : tensor<64xf32> loc("loss#aten.exp")
    return %g : tensor<64xf32>
  }
}

// -----

// Small kernels that are independent of each other share no launch either, unless both are of one module.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: dm.kernel
// CHECK-NOT: dm.kernel
// CHECK: return
module attributes {dm.target = "cuda", dm.verbs = [{verb = "keep_apart", pattern = "a"}]} {
  func.func @step(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
    %a = math.exp %x : tensor<64xf32> loc("a#aten.exp")
    %b = math.exp %y : tensor<64xf32> loc("b#aten.exp")
    %c = math.exp %z : tensor<64xf32> loc("c#aten.exp")
    return %a, %b, %c : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
}

// -----

// Near miss: a plan without a word.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: dm.kernel
// CHECK-NOT: dm.kernel
// CHECK: return
module attributes {dm.target = "cuda"} {
  func.func @step(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
    %a = math.exp %x : tensor<64xf32> loc("a#aten.exp")
    %b = math.exp %y : tensor<64xf32> loc("b#aten.exp")
    %c = math.exp %z : tensor<64xf32> loc("c#aten.exp")
    return %a, %b, %c : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
}
