// RUN: dmc-opt %s -p dm-copy-outputs --split-input-file | %FileCheck %s

// Outputs that are state, a reshape of it, a part of the batch, and a number: each is copied into a larger tensor,
// before anything else happens.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<2x3xf32>
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xi64>
// CHECK-SAME: %[[S:[^:]+]]: tensor<f32>
// CHECK-DAG: %[[LINE:.+]] = tensor.collapse_shape %[[W]]
// CHECK-DAG: %[[W_IN:.+]] = tensor.insert_slice %[[LINE]] into %{{.+}}[0] [6] [1] : tensor<6xf32> into tensor<7xf32>
// CHECK-DAG: %[[W_THERE:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[W_IN]])
// CHECK-DAG: %[[W_OUT:.+]] = tensor.extract_slice %[[W_THERE]][0] [6] [1]
// CHECK-DAG: %[[W_COPY:.+]] = tensor.expand_shape %[[W_OUT]] {{.*}} : tensor<6xf32> into tensor<2x3xf32>
// CHECK-DAG: %[[S_IN:.+]] = tensor.insert_slice %{{.+}} into %{{.+}}[0] [1] [1] : tensor<1xf32> into tensor<2xf32>
// CHECK-DAG: %[[S_THERE:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[S_IN]])
// CHECK-DAG: %[[S_OUT:.+]] = tensor.extract_slice %[[S_THERE]][0] [1] [1]
// CHECK-DAG: %[[S_COPY:.+]] = tensor.collapse_shape %[[S_OUT]] [] : tensor<1xf32> into tensor<f32>
// CHECK: %[[PART:.+]] = tensor.extract_slice %[[X]][1] [2] [1]
// CHECK: %[[X_IN:.+]] = tensor.insert_slice %[[PART]] into %{{.+}}[0] [2] [1] : tensor<2xi64> into tensor<3xi64>
// CHECK: %[[X_THERE:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[X_IN]])
// CHECK: %[[X_COPY:.+]] = tensor.extract_slice %[[X_THERE]][0] [2] [1]
// CHECK: %[[NEW:.+]] = math.tanh %[[W]]
// CHECK: return %[[NEW]], %[[W_COPY]], %[[X_COPY]], %[[S_COPY]]
func.func @step(
    %w: tensor<2x3xf32> {dm.name = "w", dm.role = "parameter"},
    %x: tensor<4xi64> {dm.name = "x", dm.role = "batch"},
    %scale: tensor<f32> {dm.name = "scale", dm.role = "batch"})
    -> (tensor<2x3xf32> {dm.name = "w"}, tensor<2x3xf32> {dm.name = "old"}, tensor<2xi64> {dm.name = "part"},
        tensor<f32> {dm.name = "given"}) {
  %part = tensor.extract_slice %x[1] [2] [1] : tensor<4xi64> to tensor<2xi64>
  %new = math.tanh %w : tensor<2x3xf32>
  return %new, %w, %part, %scale : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>, tensor<f32>
}

// -----

// Near misses: a part of what is computed, and state that stays as it is.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[^:]+]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.+]] = math.tanh %[[W]]
// CHECK-NEXT: %[[PART:.+]] = tensor.extract_slice %[[Y]]
// CHECK-NEXT: return %[[W]], %[[PART]]
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<2xf32> {dm.name = "loss"}) {
  %y = math.tanh %w : tensor<4xf32>
  %part = tensor.extract_slice %y[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %w, %part : tensor<4xf32>, tensor<2xf32>
}
