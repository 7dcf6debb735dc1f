// RUN: dmc-opt %s -p dm-link-ranks --split-input-file | %FileCheck %s

// Operations are there once for each rank, on that rank's values; names and ties are those of the rank.
// CHECK-NOT: dm.mesh
// CHECK-NOT: dm.channel
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W0:[^:]+]]: tensor<4xf32> {dm.members = {"b@0" = 0 : i64}, dm.name = "w@0", dm.rank = 0 : i64, dm.role = "arena", iree.abi.output = 0 : index}
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xf32> {dm.name = "x@0", dm.rank = 0 : i64}
// CHECK-SAME: %[[W1:[^:]+]]: tensor<4xf32> {dm.members = {"b@1" = 0 : i64}, dm.name = "w@1", dm.rank = 1 : i64, dm.role = "arena", iree.abi.output = 2 : index}
// CHECK-SAME: %[[X1:[^:]+]]: tensor<4xf32> {dm.name = "x@1", dm.rank = 1 : i64}
// CHECK-SAME: -> (tensor<4xf32> {dm.name = "w@0", dm.rank = 0 : i64}, tensor<4xf32> {dm.name = "y@0", dm.rank = 0 : i64}, tensor<4xf32> {dm.name = "w@1", dm.rank = 1 : i64}, tensor<4xf32> {dm.name = "y@1", dm.rank = 1 : i64})
// CHECK-NEXT: %[[S0:.+]] = arith.subf %[[W0]], %[[X0]] : tensor<4xf32>
// CHECK-NEXT: %[[S1:.+]] = arith.subf %[[W1]], %[[X1]] : tensor<4xf32>
// CHECK-NEXT: %[[Y0:.+]] = "dm.composite"(%[[S0]]) {decomposition = @twice, kind = "twice", parameters = {}}
// CHECK-NEXT: %[[Y1:.+]] = "dm.composite"(%[[S1]]) {decomposition = @twice, kind = "twice", parameters = {}}
// CHECK-NEXT: return %[[S0]], %[[Y0]], %[[S1]], %[[Y1]]
// CHECK-LABEL: func.func private @twice(
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "c", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func @step(%w: tensor<4xf32> {dm.name = "w", dm.role = "arena", dm.members = {b = 0 : i64}, dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>, iree.abi.output = 0 : index}, %x: tensor<4xf32> {dm.name = "x"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "y"}) {
  %s = arith.subf %w, %x {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>} : tensor<4xf32>
  %y = "dm.composite"(%s) {kind = "twice", decomposition = @twice, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %s, %y : tensor<4xf32>, tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Near miss: a program without a mesh is one of one rank, and stays.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4xf32> {dm.name = "x"}) -> tensor<4xf32> {
// CHECK-NEXT: return %[[X]] : tensor<4xf32>
func.func @step(%x: tensor<4xf32> {dm.name = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// What is nested in an operation reads the values of the same rank.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xf32> {dm.rank = 0 : i64}, %[[N0:[^:]+]]: index {dm.rank = 0 : i64}, %[[X1:[^:]+]]: tensor<4xf32> {dm.rank = 1 : i64}, %[[N1:[^:]+]]: index {dm.rank = 1 : i64}
// CHECK: tensor.generate
// CHECK: tensor.extract %[[X0]][%[[N0]]]
// CHECK: tensor.generate
// CHECK: tensor.extract %[[X1]][%[[N1]]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %y = tensor.generate {
  ^bb0(%i: index):
    %0 = tensor.extract %x[%n] : tensor<4xf32>
    tensor.yield %0 : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Pieces are joined in the order of the group, which for ["b", "a"] is 0, 2, 1, 3.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<2x4xf32> {{[^,]*}}, %[[X1:[^:]+]]: tensor<2x4xf32> {{[^,]*}}, %[[X2:[^:]+]]: tensor<2x4xf32> {{[^,]*}}, %[[X3:[^:]+]]: tensor<2x4xf32>
// CHECK-NEXT: %[[Y:.+]] = tensor.concat dim(0) %[[X0]], %[[X2]], %[[X1]], %[[X3]] : {{.*}} -> tensor<8x4xf32>
// CHECK-NEXT: %[[Z01:.+]] = tensor.concat dim(1) %[[X0]], %[[X1]] : {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT: %[[Z23:.+]] = tensor.concat dim(1) %[[X2]], %[[X3]] : {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT: return %[[Y]], %[[Z01]], %[[Y]], %[[Z01]], %[[Y]], %[[Z23]], %[[Y]], %[[Z23]]
"dm.mesh"() {sym_name = "mesh", axes = ["a", "b"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<2x8xf32>) {
  %y = "dm.all_gather"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["b", "a"]>} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  // Near miss: over one axis, each group has its own.
  %z = "dm.all_gather"(%x) {dim = 1 : i64, group = #dm.group<@mesh, ["b"]>} : (tensor<2x4xf32>) -> tensor<2x8xf32>
  return %y, %z : tensor<8x4xf32>, tensor<2x8xf32>
}

// -----

// Contributions are widened, combined in rank order, divided once for a mean, and narrowed once.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xbf16> {{[^,]*}}, %[[X1:[^:]+]]: tensor<4xbf16> {{[^,]*}}, %[[X2:[^:]+]]: tensor<4xbf16>
// CHECK: %[[Y:.+]] = linalg.generic {{.*}} ins(%[[X0]], %[[X1]], %[[X2]] : {{[^)]*}})
// CHECK-NEXT: ^bb0(%[[A:[^:]+]]: bf16, %[[B:[^:]+]]: bf16, %[[C:[^:]+]]: bf16, %{{[^:]+}}: bf16):
// CHECK-NEXT: %[[WA:.+]] = arith.extf %[[A]] : bf16 to f32
// CHECK-NEXT: %[[WB:.+]] = arith.extf %[[B]] : bf16 to f32
// CHECK-NEXT: %[[WC:.+]] = arith.extf %[[C]] : bf16 to f32
// CHECK-NEXT: %[[AB:.+]] = arith.addf %[[WA]], %[[WB]] : f32
// CHECK-NEXT: %[[ABC:.+]] = arith.addf %[[AB]], %[[WC]] : f32
// CHECK-NEXT: %[[N:.+]] = arith.constant 3.000000e+00 : f32
// CHECK-NEXT: %[[MEAN:.+]] = arith.divf %[[ABC]], %[[N]] : f32
// CHECK-NEXT: %[[NARROW:.+]] = arith.truncf %[[MEAN]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[NARROW]] : bf16
// CHECK: return %[[Y]], %[[Y]], %[[Y]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 3>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"mean">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xbf16>) -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// -----

// Near miss: a sum is not divided, and what is accumulated as it is stays as wide as it is.
// CHECK-LABEL: func.func @step(
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0(%[[A:[^:]+]]: f32, %[[B:[^:]+]]: f32, %{{[^:]+}}: f32):
// CHECK-NEXT: %[[S:.+]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: linalg.yield %[[S]] : f32
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0(%[[C:[^:]+]]: i8, %[[D:[^:]+]]: i8, %{{[^:]+}}: i8):
// CHECK-NEXT: %[[WC:.+]] = arith.extsi %[[C]] : i8 to i32
// CHECK-NEXT: %[[WD:.+]] = arith.extsi %[[D]] : i8 to i32
// CHECK-NEXT: %[[M:.+]] = arith.maxsi %[[WC]], %[[WD]] : i32
// CHECK-NEXT: %[[NM:.+]] = arith.trunci %[[M]] : i32 to i8
// CHECK-NEXT: linalg.yield %[[NM]] : i8
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %n: tensor<i8>) -> (tensor<4xf32>, tensor<i8>) {
  %y = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
  %m = "dm.all_reduce"(%n) {reduction = #dm.reduction<"max">, accumulate = i32, group = #dm.group<@mesh, ["dp"]>} : (tensor<i8>) -> tensor<i8>
  return %y, %m : tensor<4xf32>, tensor<i8>
}

// -----

// Reduced once, then each rank takes its piece.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4x6xf32> {{[^,]*}}, %[[X1:[^:]+]]: tensor<4x6xf32>
// CHECK: %[[R:.+]] = linalg.generic {{.*}} ins(%[[X0]], %[[X1]] :
// CHECK-NOT: linalg.generic
// CHECK: %[[Y0:.+]] = tensor.extract_slice %[[R]][0, 0] [4, 3] [1, 1]
// CHECK-NEXT: %[[Y1:.+]] = tensor.extract_slice %[[R]][0, 3] [4, 3] [1, 1]
// Near miss: a slice is that of the rank's own value.
// CHECK-NEXT: %[[Z0:.+]] = tensor.extract_slice %[[X0]][0, 0] [2, 6] [1, 1]
// CHECK-NEXT: %[[Z1:.+]] = tensor.extract_slice %[[X1]][2, 0] [2, 6] [1, 1]
// CHECK-NEXT: return %[[Y0]], %[[Z0]], %[[Y1]], %[[Z1]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<2x6xf32>) {
  %y = "dm.reduce_scatter"(%x) {dim = 1 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %z = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x6xf32>) -> tensor<2x6xf32>
  return %y, %z : tensor<4x3xf32>, tensor<2x6xf32>
}

// -----

// Rank j gets piece j of every rank.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4x2xf32> {{[^,]*}}, %[[X1:[^:]+]]: tensor<4x2xf32>
// CHECK-NEXT: %[[A:.+]] = tensor.extract_slice %[[X0]][0, 0] [2, 2] [1, 1]
// CHECK-NEXT: %[[B:.+]] = tensor.extract_slice %[[X1]][0, 0] [2, 2] [1, 1]
// CHECK-NEXT: %[[Y0:.+]] = tensor.concat dim(1) %[[A]], %[[B]] : {{.*}} -> tensor<2x4xf32>
// CHECK-NEXT: %[[C:.+]] = tensor.extract_slice %[[X0]][2, 0] [2, 2] [1, 1]
// CHECK-NEXT: %[[D:.+]] = tensor.extract_slice %[[X1]][2, 0] [2, 2] [1, 1]
// CHECK-NEXT: %[[Y1:.+]] = tensor.concat dim(1) %[[C]], %[[D]] : {{.*}} -> tensor<2x4xf32>
// CHECK-NEXT: return %[[Y0]], %[[Y1]]
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x2xf32>) -> tensor<2x4xf32> {
  %y = "dm.all_to_all"(%x) {split_dim = 0 : i64, concat_dim = 1 : i64, group = #dm.group<@mesh, ["tp"]>} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Everybody has the value of the root; whoever is no target of a permutation has zeros.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xi32> {{[^,]*}}, %[[X1:[^:]+]]: tensor<4xi32> {{[^,]*}}, %[[X2:[^:]+]]: tensor<4xi32>
// CHECK-NEXT: %[[ZERO:.+]] = arith.constant dense<0> : tensor<4xi32>
// CHECK-NEXT: return %[[X1]], %[[X2]], %[[X1]], %[[ZERO]], %[[X1]], %[[X0]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 3>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %y = "dm.broadcast"(%x) {root = 1 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xi32>) -> tensor<4xi32>
  %z = "dm.permute"(%x) {source_target_pairs = dense<[[0, 2], [2, 0]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xi32>) -> tensor<4xi32>
  return %y, %z : tensor<4xi32>, tensor<4xi32>
}

// -----

// A loop with a collective is one loop for all ranks.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X0:[^:]+]]: tensor<4xf32> {{[^,]*}}, %[[X1:[^:]+]]: tensor<4xf32>
// CHECK: %[[L:.+]]:4 = scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[A0:.+]] = %[[X0]], %[[N0:.+]] = %{{.+}}, %[[A1:.+]] = %[[X1]], %[[N1:.+]] = %{{.+}}) ->
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[M0:.+]] = arith.addi %[[N0]], %[[I]] : index
// CHECK-NEXT: %[[M1:.+]] = arith.addi %[[N1]], %[[I]] : index
// CHECK: scf.yield %[[R:.+]], %[[M0]], %[[R]], %[[M1]]
// CHECK: return %[[L]]#0, %[[L]]#1, %[[L]]#2, %[[L]]#3
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %l:2 = scf.for %i = %zero to %three step %one iter_args(%a = %x, %n = %zero) -> (tensor<4xf32>, index) {
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<4xf32>
    %m = arith.addi %n, %i : index
    scf.yield %r, %m : tensor<4xf32>, index
  }
  return %l#0, %l#1 : tensor<4xf32>, index
}

// -----

// Near miss: a loop without one is a loop of each rank, however often it turns.
// CHECK-LABEL: func.func @step(
// CHECK-COUNT-2: scf.for {{.*}} -> (tensor<4xf32>) {
// CHECK-NOT: scf.for
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %l = scf.for %i = %zero to %n step %one iter_args(%a = %x) -> tensor<4xf32> {
    %s = arith.addf %a, %x : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %l : tensor<4xf32>
}

// -----

// The seed is the same for all ranks: all read that of rank 0.
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[SEED:[^:]+]]: tensor<i64> {dm.name = "seed@0"
// CHECK-COUNT-2: arith.addi %[[SEED]], %[[SEED]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%seed: tensor<i64> {dm.name = "seed", dm.role = "seed"}) -> tensor<i64> {
  %s = arith.addi %seed, %seed : tensor<i64>
  return %s : tensor<i64>
}
