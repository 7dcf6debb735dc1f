// RUN: dmc-opt %s -p dm-count-traffic --split-input-file | %FileCheck %s

"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()

// One behind the other: 2 groups of 2 ranks, 2·(n-1)·16 B each; then what each of 4 ranks sends to 3 others.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>) -> (tensor<16xf32> {dm.name = "y"}, tensor<i64> {dm.name = "traffic"})
// CHECK-NEXT: %[[ZERO:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[R:.+]] = "dm.all_reduce"(%[[X]])
// CHECK-NEXT: %[[FIRST:.+]] = arith.constant 64 : i64
// CHECK-NEXT: %[[A:.+]] = arith.addi %[[ZERO]], %[[FIRST]] : i64
// CHECK-NEXT: %[[Y:.+]] = "dm.all_gather"(%[[R]])
// CHECK-NEXT: %[[SECOND:.+]] = arith.constant 192 : i64
// CHECK-NEXT: %[[B:.+]] = arith.addi %[[A]], %[[SECOND]] : i64
// CHECK-NEXT: %[[T:.+]] = tensor.from_elements %[[B]] : tensor<i64>
// CHECK-NEXT: return %[[Y]], %[[T]]
func.func @step(%x: tensor<4xf32>) -> (tensor<16xf32> {dm.name = "y"}) {
  %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %y = "dm.all_gather"(%r) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<4xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// A loop carries the count, also around another; near miss: one without collectives does not.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>, %[[N:[^:]+]]: index)
// CHECK: %[[ZERO:.+]] = arith.constant 0 : i64
// CHECK: %[[OUTER:.+]]:2 = scf.for {{.*}} iter_args(%[[C:.+]] = %[[X]], %[[A:.+]] = %[[ZERO]]) -> (tensor<4xf32>, i64)
// CHECK-NEXT: %[[INNER:.+]] = scf.for {{.*}} iter_args(%[[B:.+]] = %[[A]]) -> (i64)
// CHECK-NEXT: dm.all_reduce
// CHECK-NEXT: %[[SENT:.+]] = arith.constant 32 : i64
// CHECK-NEXT: %[[S:.+]] = arith.addi %[[B]], %[[SENT]] : i64
// CHECK-NEXT: scf.yield %[[S]] : i64
// CHECK: scf.yield %[[C]], %[[INNER]]
// CHECK: scf.for {{.*}} -> (tensor<4xf32>)
// CHECK: %[[T:.+]] = tensor.from_elements %[[OUTER]]#1
// CHECK-NEXT: return %{{.+}}, %[[T]]
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> tensor<4xf32> {
    scf.for %j = %zero to %n step %one {
      %r = "dm.all_reduce"(%c) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    }
    scf.yield %c : tensor<4xf32>
  }
  %z = scf.for %i = %zero to %n step %one iter_args(%c = %y) -> tensor<4xf32> {
    %d = arith.addf %c, %c : tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  }
  return %z : tensor<4xf32>
}

// -----

// Near miss: a slice sends nothing. Without collectives the count is nothing.
// CHECK-LABEL: func.func @step
// CHECK: %[[ZERO:.+]] = arith.constant 0 : i64
// CHECK-NEXT: dm.all_slice
// CHECK-NEXT: %[[T:.+]] = tensor.from_elements %[[ZERO]]
// CHECK-NEXT: return %{{.+}}, %[[T]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
