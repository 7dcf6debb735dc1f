// RUN: dmc-opt %s -p dm-separate-concats --split-input-file | %FileCheck %s

// Joins that begin alike: each begins with what is its own.

// CHECK-LABEL: func.func @begin_alike
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<2x3xf32>, %[[C:.*]]: tensor<2x3xf32>)
func.func @begin_alike(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>)
    -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  // CHECK: %[[E0:.*]] = tensor.empty()
  // CHECK: %[[B0:.*]] = tensor.insert_slice %[[B]] into %[[E0]][0, 3] [2, 3] [1, 1]
  // CHECK: %[[AB:.*]] = tensor.insert_slice %[[A]] into %[[B0]][0, 0] [2, 3] [1, 1]
  %ab = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: %[[E1:.*]] = tensor.empty()
  // CHECK: %[[C0:.*]] = tensor.insert_slice %[[C]] into %[[E1]][0, 3] [2, 3] [1, 1]
  // CHECK: %[[AC:.*]] = tensor.insert_slice %[[A]] into %[[C0]][0, 0] [2, 3] [1, 1]
  %ac = tensor.concat dim(1) %a, %c : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: return %[[AB]], %[[AC]]
  return %ab, %ac : tensor<2x6xf32>, tensor<2x6xf32>
}

// -----

// The same tensor elsewhere, or in a join of another type, is no matter.

// CHECK-LABEL: func.func @begin_differently
func.func @begin_differently(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>)
    -> (tensor<2x6xf32>, tensor<2x6xf32>, tensor<4x3xf32>) {
  // CHECK-NOT: insert_slice
  // CHECK-COUNT-3: tensor.concat
  %ab = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %bb = tensor.concat dim(1) %b, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %rows = tensor.concat dim(0) %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %ab, %bb, %rows : tensor<2x6xf32>, tensor<2x6xf32>, tensor<4x3xf32>
}

// -----

// What is taken by another join is not begun with: [a, b] begins with b, [a, c] with c, [d, b] stays.

// CHECK-LABEL: func.func @taken
// CHECK-SAME: (%[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<3xf32>, %[[C:.*]]: tensor<3xf32>, %[[D:.*]]: tensor<3xf32>)
func.func @taken(%a: tensor<3xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>, %d: tensor<3xf32>)
    -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
  // CHECK: tensor.insert_slice %[[A]] into %{{.*}}[0] [3] [1]
  // CHECK: tensor.insert_slice %[[B]] into %{{.*}}[3] [3] [1]
  %ab = tensor.concat dim(0) %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  // CHECK: tensor.insert_slice %[[C]] into %{{.*}}[3] [3] [1]
  // CHECK: tensor.insert_slice %[[A]] into %{{.*}}[0] [3] [1]
  %ac = tensor.concat dim(0) %a, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  // CHECK: tensor.concat dim(0) %[[D]], %[[B]]
  %db = tensor.concat dim(0) %d, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  return %ab, %ac, %db : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
}

// -----

// Paddings alike would be insertions into one filled tensor: each is joined, and begins with what is padded. Near miss:
// the last has another value, and stays.

// CHECK-LABEL: func.func @paddings
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<2x3xf32>)
func.func @paddings(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  // CHECK: %[[EDGE:.*]] = linalg.fill {{.*}} -> tensor<2x1xf32>
  // CHECK: tensor.insert_slice %[[A]] into %{{.*}}[0, 1] [2, 3] [1, 1]
  // CHECK: tensor.insert_slice %[[EDGE]] into %{{.*}}[0, 0] [2, 1] [1, 1]
  // CHECK: tensor.insert_slice %[[EDGE]] into %{{.*}}[0, 4] [2, 1] [1, 1]
  %pa = tensor.pad %a low[0, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
  } : tensor<2x3xf32> to tensor<2x5xf32>
  // CHECK: tensor.insert_slice %[[B]] into %{{.*}}[0, 1] [2, 3] [1, 1]
  %pb = tensor.pad %b low[0, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
  } : tensor<2x3xf32> to tensor<2x5xf32>
  // CHECK: tensor.pad %[[B]]
  %pc = tensor.pad %b low[0, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %one : f32
  } : tensor<2x3xf32> to tensor<2x5xf32>
  return %pa, %pb, %pc : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
}
