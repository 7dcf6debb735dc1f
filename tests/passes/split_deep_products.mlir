// RUN: dmc-opt %s -p dm-split-deep-products | %FileCheck %s

// A product that is too deep is a chain of products, each of which adds to the one before.
// CHECK-LABEL: func.func @deep
// CHECK-SAME: (%[[A:[^:]+]]: tensor<4x10240xf32>, %[[B:[^:]+]]: tensor<10240x8xf32>, %[[C:[^:]+]]: tensor<4x8xf32>)
// CHECK: %[[A0:.+]] = tensor.extract_slice %[[A]][0, 0] [4, 2048]
// CHECK: %[[B0:.+]] = tensor.extract_slice %[[B]][0, 0] [2048, 8]
// CHECK: %[[FIRST:.+]] = linalg.matmul ins(%[[A0]], %[[B0]] : {{.+}}) outs(%[[C]]
// CHECK: linalg.matmul {{.+}} outs(%[[FIRST]]
// CHECK-COUNT-3: linalg.matmul
// CHECK-NOT: linalg.matmul
func.func @deep(%a: tensor<4x10240xf32>, %b: tensor<10240x8xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x10240xf32>, tensor<10240x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @left
// CHECK-NOT: tensor.extract_slice
func.func @left(%a: tensor<4x8192xf32>, %b: tensor<8192x8xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8192xf32>, tensor<8192x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
