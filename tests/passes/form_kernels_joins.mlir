// RUN: dmc-opt %s -p dm-form-kernels | %FileCheck %s

// Two joins, or two paddings, in one kernel may begin alike, and IREE 3.13 then lets one overwrite the other. Each is a
// kernel of its own, whatever is read before and computed behind.

// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[A:[^:]+]]: {{[^%]+}}, %[[B:[^:]+]]: {{[^%]+}}, %[[C:[^:]+]]:
// CHECK-NEXT: %[[AB:.+]] = "dm.kernel"(%[[A]], %[[B]]) {body = @concat_0
// CHECK-NEXT: %[[AC:.+]] = "dm.kernel"(%[[A]], %[[C]]) {body = @concat_0
// CHECK-NEXT: %{{.+}} = "dm.kernel"(%[[AB]], %[[AC]]) {body = @elementwise_0
// CHECK-NEXT: %[[LEFT:.+]] = "dm.kernel"(%[[A]]) {body = @pad_0
// CHECK-NEXT: %[[RIGHT:.+]] = "dm.kernel"(%[[A]]) {body = @pad_1
// CHECK-NEXT: %{{.+}} = "dm.kernel"(%[[LEFT]], %[[RIGHT]]) {body = @elementwise_1
// CHECK-COUNT-1: tensor.concat
// CHECK-NOT: tensor.concat
func.func @step(%a: tensor<4x8xf32> {dm.name = "a", dm.role = "batch"}, %b: tensor<4x8xf32> {dm.name = "b", dm.role = "batch"},
                %c: tensor<4x8xf32> {dm.name = "c", dm.role = "batch"})
    -> (tensor<4x16xf32> {dm.name = "r0"}, tensor<4x10xf32> {dm.name = "r1"}) {
  %zero = arith.constant 0.0 : f32
  %ab = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %ac = tensor.concat dim(1) %a, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %sum = arith.addf %ab, %ac : tensor<4x16xf32>
  %left = tensor.pad %a low[0, 2] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x10xf32>
  %right = tensor.pad %a low[0, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x10xf32>
  %both = arith.addf %left, %right : tensor<4x10xf32>
  return %sum, %both : tensor<4x16xf32>, tensor<4x10xf32>
}
