// RUN: dmc-opt %s -p dm-form-kernels,dm-stage-inputs,dm-copy-ports --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p dm-form-kernels,dm-stage-inputs,dm-copy-ports,dm-copy-ports --split-input-file | %FileCheck %s
// RUN: sed 's/"cuda"/"cuda:iree"/' %s | dmc-opt - -p dm-form-kernels,dm-copy-ports --split-input-file | %FileCheck %s --check-prefix=IREE

// Where the runtime copies inputs to the device before the step, kernels read them there, also through views. What else
// reads one, as an output, reads a copy. Outputs go as ever.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}
// CHECK-SAME: %[[LR:[^:]+]]: tensor<f32> {dm.name = "lr", dm.role = "control", dm.space = #dm.space<"staged">}
// CHECK-SAME: %[[X:[^:]+]]: tensor<2x4xf32> {dm.name = "x", dm.role = "batch", dm.space = #dm.space<"staged">}
// CHECK-SAME: %[[Y:[^:]+]]: tensor<4xf32> {dm.name = "y", dm.role = "batch", dm.space = #dm.space<"staged">}
// CHECK: %[[YD:.+]] = "dm.copy"(%[[Y]]) {dm.tensor = "y", source = #dm.space<"staged">, target = #dm.space<"device">}
// CHECK: %[[ROW:.+]] = tensor.extract_slice %[[X]][1, 0] [1, 4] [1, 1]
// CHECK: %[[N:.+]] = "dm.kernel"(%[[W]], %[[ROW]], %[[LR]], %[[YD]])
// CHECK: %[[OUT:.+]] = "dm.copy"(%[[YD]]) {dm.tensor = "kept", source = #dm.space<"device">, target = #dm.space<"pinned_host">}
// CHECK: return %[[N]], %[[OUT]]
// IREE-LABEL: func.func @step
// IREE-COUNT-3: source = #dm.space<"pinned_host">, target = #dm.space<"device">
module attributes {dm.target = "cuda"} {
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %lr: tensor<f32> {dm.name = "lr", dm.role = "control"},
                %x: tensor<2x4xf32> {dm.name = "x", dm.role = "batch"}, %y: tensor<4xf32> {dm.name = "y", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "kept"}) {
  %row = tensor.extract_slice %x[1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%w, %row, %lr, %y : tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
    %p = arith.mulf %b, %c : f32
    %q = arith.addf %p, %d : f32
    %s = arith.subf %a, %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %n, %y : tensor<4xf32>, tensor<4xf32>
}
}
