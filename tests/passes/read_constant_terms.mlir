// RUN: dmc-opt %s -p dm-read-constant-terms | %FileCheck %s

#in = affine_map<(i) -> (i)>
#out = affine_map<(i) -> ()>

// A sum over what no operand decides reads a zero from memory for each term.
// CHECK-LABEL: func.func @of_indices
// CHECK: %[[ZEROS:.+]] = "iree_tensor_ext.compute_barrier_start"
// CHECK: linalg.generic {{.+}} ins(%{{.+}}, %[[ZEROS]] :
// CHECK: arith.cmpi eq
// CHECK: arith.select
func.func @of_indices() -> tensor<i64> {
  %start = arith.constant dense<0> : tensor<i64>
  %none = tensor.empty() : tensor<8xi64>
  %numbers = linalg.generic {indexing_maps = [#in], iterator_types = ["parallel"]} outs(%none : tensor<8xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<8xi64>
  %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%numbers : tensor<8xi64>) outs(%start : tensor<i64>) {
  ^bb0(%a: i64, %sum: i64):
    %1 = arith.addi %a, %sum : i64
    linalg.yield %1 : i64
  } -> tensor<i64>
  return %0 : tensor<i64>
}

// CHECK-LABEL: func.func @of_an_argument
// CHECK-NOT: compute_barrier_start
func.func @of_an_argument(%x: tensor<8xi64>) -> tensor<i64> {
  %start = arith.constant dense<0> : tensor<i64>
  %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%x : tensor<8xi64>) outs(%start : tensor<i64>) {
  ^bb0(%a: i64, %sum: i64):
    %1 = arith.addi %a, %sum : i64
    linalg.yield %1 : i64
  } -> tensor<i64>
  return %0 : tensor<i64>
}
