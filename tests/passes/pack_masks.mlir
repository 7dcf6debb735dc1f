// RUN: dmc-opt %s -p 'dm-pack-masks{least=1}' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-pack-masks' --split-input-file | %FileCheck %s --check-prefix=STAYS
// RUN: dmc-opt %s -p 'dm-pack-masks{least=1 reasons=true}' --split-input-file 2>&1 | %FileCheck %s --check-prefix=WHY
// STAYS-NOT: arith.shli

// Both passes read %mask, which is drawn: bit j of a word is its element j.
// CHECK-DAG: #[[$BITS:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$WORDS:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @step
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x96xi1>)
// CHECK: %[[ZERO:.*]] = arith.constant dense<0> : tensor<4x3xi32>
// CHECK: %[[SPLIT:.*]] = tensor.expand_shape %[[MASK]] {{\[\[}}0], [1, 2]]
// CHECK: %[[PACKED:.*]] = linalg.generic {indexing_maps = [#[[$BITS]], #[[$WORDS]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[SPLIT]] : tensor<4x3x32xi1>) outs(%[[ZERO]]
// CHECK: arith.shli
// CHECK: arith.ori
// CHECK: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[PACKED]])
// CHECK: %[[SPREAD:.*]] = linalg.generic {indexing_maps = [#[[$WORDS]], #[[$BITS]]], {{.*}} ins(%[[KEPT]] : tensor<4x3xi32>)
// CHECK: arith.shrsi
// CHECK: arith.trunci
// CHECK: %[[AGAIN:.*]] = tensor.collapse_shape %[[SPREAD]]
// CHECK: linalg.generic {{.*}} ins(%{{[^,]+}}, %[[AGAIN]]
// CHECK: linalg.generic {{.*}} ins(%{{[^,]+}}, %[[AGAIN]]
// WHY: mask of   masks  bytes  bytes as bits  decision
// WHY: h.*.drop  1      384    48             packed
// WHY: 336 bytes less between the passes
#same = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
func.func @step(%x: tensor<4x96xf32>, %seed: tensor<i64>) -> (tensor<4x96xf32>, tensor<4x96xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x96xf32>
  %m = tensor.empty() : tensor<4x96xi1>
  %mask = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%m : tensor<4x96xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n = arith.index_cast %j : index to i64
      %b = arith.cmpi slt, %s, %n : i64
      linalg.yield %b : i1
  } -> tensor<4x96xi1> loc("h.0.drop#draw")
  %y = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mask : tensor<4x96xf32>, tensor<4x96xi1>) outs(%e : tensor<4x96xf32>) {
    ^bb0(%i: f32, %k: i1, %o: f32):
      %n = arith.select %k, %i, %zero : f32
      linalg.yield %n : f32
  } -> tensor<4x96xf32> loc("h.0.drop#select")
  %dx = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%y, %mask : tensor<4x96xf32>, tensor<4x96xi1>) outs(%e : tensor<4x96xf32>) {
    ^bb0(%i: f32, %k: i1, %o: f32):
      %n = arith.select %k, %i, %zero : f32
      linalg.yield %n : f32
  } -> tensor<4x96xf32> loc("h.0.drop#select, backward")
  return %y, %dx : tensor<4x96xf32>, tensor<4x96xf32>
}

// -----

// What the backward pass reads is made from %mask: it is kept nevertheless, in rows of three bytes.
// CHECK-LABEL: func.func @step
// CHECK: %[[WORDS:.*]] = "iree_tensor_ext.compute_barrier_start"({{.*}}) : (tensor<4x3xi8>)
// CHECK: ins(%[[WORDS]] : tensor<4x3xi8>) outs({{.*}} : tensor<4x3x8xi1>)
// WHY: h.*.drop  1      96     12             packed
#same = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
func.func @step(%x: tensor<4x24xf32>, %seed: tensor<i64>) -> (tensor<4x24xf32>, tensor<4x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<4x24xf32>
  %m = tensor.empty() : tensor<4x24xi1>
  %mask = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%m : tensor<4x24xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n = arith.index_cast %j : index to i64
      %b = arith.cmpi slt, %s, %n : i64
      linalg.yield %b : i1
  } -> tensor<4x24xi1> loc("h.0.drop#draw")
  %scale = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%mask : tensor<4x24xi1>) outs(%e : tensor<4x24xf32>) {
    ^bb0(%k: i1, %o: f32):
      %n = arith.select %k, %two, %zero : f32
      linalg.yield %n : f32
  } -> tensor<4x24xf32> loc("h.0.drop#scale")
  %y = arith.mulf %x, %scale : tensor<4x24xf32> loc("h.0.drop#mul")
  %dx = arith.mulf %y, %scale : tensor<4x24xf32> loc("h.0.drop#mul, backward")
  return %y, %dx : tensor<4x24xf32>, tensor<4x24xf32>
}

// -----

// Near misses: a mask with rows of no whole bytes, one that leaves the step, one that depends on the batch, and one that
// the backward pass does not read.
// CHECK-LABEL: func.func @step
// CHECK-NOT: arith.shli
// WHY: h.*.left  1      32     -              kept: not only loops read it
// WHY: h.*.odd   1      20     -              kept: rows of no whole bytes
// WHY: 0 bytes less between the passes
#same = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
func.func @step(%x: tensor<4x8xf32>, %z: tensor<4x5xf32>, %seed: tensor<i64>)
    -> (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<4x8xf32>
  %few = arith.constant dense<0.0> : tensor<4x5xf32>
  %m = tensor.empty() : tensor<4x8xi1>
  %n = tensor.empty() : tensor<4x5xi1>
  %left = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%m : tensor<4x8xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n64 = arith.index_cast %j : index to i64
      %b = arith.cmpi slt, %s, %n64 : i64
      linalg.yield %b : i1
  } -> tensor<4x8xi1> loc("h.0.left#draw")
  %forward = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%m : tensor<4x8xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n64 = arith.index_cast %j : index to i64
      %b = arith.cmpi sgt, %s, %n64 : i64
      linalg.yield %b : i1
  } -> tensor<4x8xi1> loc("h.0.forward#draw")
  %odd = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%n : tensor<4x5xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n64 = arith.index_cast %j : index to i64
      %b = arith.cmpi slt, %s, %n64 : i64
      linalg.yield %b : i1
  } -> tensor<4x5xi1> loc("h.0.odd#draw")
  %batch = arith.cmpf ogt, %x, %zeros : tensor<4x8xf32> loc("h.0.batch#cmp")
  %once = arith.select %forward, %x, %zeros : tensor<4x8xi1>, tensor<4x8xf32> loc("h.0.forward#select")
  %a = arith.select %left, %x, %zeros : tensor<4x8xi1>, tensor<4x8xf32> loc("h.0.left#select, backward")
  %b = arith.select %batch, %x, %zeros : tensor<4x8xi1>, tensor<4x8xf32> loc("h.0.batch#select, backward")
  %c = arith.select %odd, %z, %few : tensor<4x5xi1>, tensor<4x5xf32> loc("h.0.odd#select, backward")
  return %left, %once, %a, %b, %c : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x5xf32>
}
