// RUN: dmc-opt %s -p 'dm-recompute' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-recompute{reasons=true}' --split-input-file 2>&1 | %FileCheck %s --check-prefix=WHY

// The backward pass reads %x, in a loop, and %y, in a product: %y is made again from %x, which is kept.
// CHECK-LABEL: func.func @step
// CHECK: %[[SUM:.*]] = linalg.matmul
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%[[SUM]]
// CHECK: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[X]])
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: math.exp
// CHECK: %[[NEXT:.*]] = linalg.matmul ins(%[[Y]]
// CHECK: %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%[[KEPT]]
// CHECK: math.exp
// CHECK: linalg.matmul ins(%[[AGAIN]]
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]]
// WHY: values of  regions  bytes freed  bytes moved  made from  decision
// WHY: h.*.act  1  262,144  262,144  h.*.fc  made again
// WHY: 262,144 bytes freed between the passes, 262,144 bytes more moved
#same = affine_map<(i, j) -> (i, j)>
func.func @step(%a: tensor<256x256xf32>, %w: tensor<256x256xf32>)
    -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x256xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x256xf32>) -> tensor<256x256xf32>
  %sum = linalg.matmul ins(%a, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.fc#mm")
  %x = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<256x256xf32>) outs(%empty : tensor<256x256xf32>) {
    ^bb0(%i: f32, %o: f32):
      %n = arith.negf %i : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0.fc#neg")
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<256x256xf32>) outs(%empty : tensor<256x256xf32>) {
    ^bb0(%i: f32, %o: f32):
      %n = math.exp %i : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0.act#exp")
  %next = linalg.matmul ins(%y, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm")
  %dw = linalg.matmul ins(%y, %next : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm, backward")
  %dx = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<256x256xf32>) outs(%empty : tensor<256x256xf32>) {
    ^bb0(%i: f32, %o: f32):
      %n = arith.mulf %i, %i : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0.act#mul, backward")
  return %next, %dw, %dx : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
}

// -----

// Near misses. A residual sum is kept: to make it again takes the one before it. So is what is cast from an argument,
// and what would have to be read again for that alone: %x, which only products read.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier_start
// WHY: h.*.act  1  131,072  393,216  h.*.fc  kept: moves more than it frees
// WHY: 0 bytes freed between the passes, 0 bytes more moved
#same = affine_map<(i, j) -> (i, j)>
func.func @step(%a: tensor<256x256xf32>, %w: tensor<256x256xf32>)
    -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x256xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x256xf32>) -> tensor<256x256xf32>
  %half = tensor.empty() : tensor<256x256xbf16>
  %cast = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<256x256xf32>) outs(%half : tensor<256x256xbf16>) {
    ^bb0(%i: f32, %o: bf16):
      %n = arith.truncf %i : f32 to bf16
      linalg.yield %n : bf16
  } -> tensor<256x256xbf16> loc("h.0.fc#cast")
  %x = linalg.matmul ins(%a, %cast : tensor<256x256xf32>, tensor<256x256xbf16>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.fc#mm")
  %sum = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%a, %x : tensor<256x256xf32>, tensor<256x256xf32>) outs(%empty : tensor<256x256xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %n = arith.addf %i, %j : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0#add")
  %z = linalg.matmul ins(%x, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.other#mm")
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<256x256xf32>) outs(%half : tensor<256x256xbf16>) {
    ^bb0(%i: f32, %o: bf16):
      %n = arith.truncf %i : f32 to bf16
      linalg.yield %n : bf16
  } -> tensor<256x256xbf16> loc("h.0.act#cast")
  %dw = linalg.matmul ins(%y, %cast : tensor<256x256xbf16>, tensor<256x256xbf16>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm, backward")
  %dx = linalg.matmul ins(%x, %z : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm, backward")
  %ds = linalg.matmul ins(%sum, %z : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm, backward")
  return %z, %dw, %dx, %ds : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
}

// -----

// What depends on a draw, on constants and on a scalar is made again, too, and read through a view, in a body, and by what is
// computed from the backward pass, wherever it comes from. A few bytes more may be moved than are freed.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = linalg.matmul
// CHECK-DAG: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[X]])
// CHECK-NOT: (f32) -> f32
// CHECK: %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%[[KEPT]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: arith.maximumf
// CHECK: %[[VIEW:.*]] = tensor.expand_shape %[[AGAIN]]
// CHECK: linalg.generic {{.*}} ins(%[[VIEW]]
// CHECK: tensor.extract %[[AGAIN]]
// CHECK: %[[DW:.*]] = linalg.matmul ins(%[[AGAIN]]
// CHECK: linalg.generic {{.*}} ins(%[[DW]], %[[AGAIN]]
// WHY: h.*.drop  1  261,120  262,144  h.*.fc, h.*.drop  made again
#same = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
#row = affine_map<(i, j) -> (i)>
!t = tensor<256x256xf32>
!views = tensor<256x16x16xf32>
func.func @step(%a: !t, %w: !t, %seed: tensor<i64>) -> (!t, !t, !views, !t, !t, !t) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.fc#mm")
  %mask = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%empty : !t) {
    ^bb0(%i: i64, %o: f32):
      %m = arith.muli %i, %i : i64
      %n = arith.sitofp %m : i64 to f32
      linalg.yield %n : f32
  } -> !t loc("h.0.drop#draw")
  %few = tensor.empty() : tensor<256xf32>
  %level = linalg.reduce {arith.maximumf} ins(%x : !t) outs(%few : tensor<256xf32>) dimensions = [1]
  %place = arith.constant 0 : index
  %first = tensor.extract %level[%place] : tensor<256xf32>
  %y = linalg.generic {indexing_maps = [#same, #same, #row, #one, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mask, %level, %first, %fill : !t, !t, tensor<256xf32>, f32, !t) outs(%empty : !t) {
    ^bb0(%i: f32, %m: f32, %l: f32, %s: f32, %f: f32, %o: f32):
      %e = arith.addf %l, %s : f32
      %n = arith.mulf %i, %m : f32
      %d = arith.subf %n, %e : f32
      %k = arith.maximumf %d, %f : f32
      linalg.yield %k : f32
  } -> !t loc("h.0.drop#mul")
  %next = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.proj#mm")
  %dx = arith.mulf %x, %mask : !t loc("h.0.drop#mul, backward")
  %view = tensor.expand_shape %y [[0], [1, 2]] output_shape [256, 16, 16] : !t into !views
  %seen = math.exp %view : !views loc("h.0.drop#exp, backward")
  %taken = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%empty : !t) {
    ^bb0(%o: f32):
      %i = linalg.index 0 : index
      %e = tensor.extract %y[%i, %i] : !t
      linalg.yield %e : f32
  } -> !t loc("h.0.drop#take, backward")
  %dw = linalg.matmul ins(%y, %next : !t, !t) outs(%fill : !t) -> !t loc("h.0.proj#mm, backward")
  %late = arith.addf %dw, %y : !t loc("h.0.other#add")
  return %next, %dx, %seen, %taken, %dw, %late : !t, !t, !views, !t, !t, !t
}

// -----

// Near misses: a sum of tensors between which there is a product; what its checkpoint makes again; what is small.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier_start
// WHY: 0 bytes freed between the passes, 0 bytes more moved
!t = tensor<256x256xf32>
!small = tensor<64x64xf32>
func.func @step(%a: !t, %w: !t, %b: !small) -> (!t, !t, !t, !t, !small, !small) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
  %few = tensor.empty() : !small
  %fills = linalg.fill ins(%zero : f32) outs(%few : !small) -> !small
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.fc#mm")
  %z = linalg.matmul ins(%x, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.proj#mm")
  %sum = arith.addf %x, %z : !t loc("h.0#add")
  %inner = math.exp %x : !t loc("h.0.act#exp, checkpoint 1")
  %s = linalg.matmul ins(%b, %b : !small, !small) outs(%fills : !small) -> !small loc("h.0.side#mm")
  %t = math.exp %s : !small loc("h.0.side#exp")
  %d0 = linalg.matmul ins(%sum, %a : !t, !t) outs(%fill : !t) -> !t loc("h.0#mm, backward")
  %d1 = linalg.matmul ins(%inner, %a : !t, !t) outs(%fill : !t) -> !t loc("h.0.act#mm, backward")
  %d2 = arith.mulf %x, %z : !t loc("h.0#mul, backward")
  %d3 = linalg.matmul ins(%t, %b : !small, !small) outs(%fills : !small) -> !small loc("h.0.side#mm, backward")
  %d4 = arith.mulf %s, %s : !small loc("h.0.side#mul, backward")
  return %sum, %d0, %d1, %d2, %d3, %d4 : !t, !t, !t, !t, !small, !small
}

// -----

// Of %x and its exponential, which are of one size, is kept what a product reads and so is in memory anyway; where there
// is none, what is kept must be written for that.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier_start
// WHY: h.*.twice, h.*.neg  1  262,144  1,048,576  h.*.act  kept: moves more than it frees
// WHY: h.*.twice, h.*.neg  1  262,144  786,432  h.*.fc  kept: moves more than it frees
!t = tensor<256x256xf32>
func.func @step(%a: !t, %w: !t) -> (!t, !t, !t, !t, !t, !t, !t, !t, !t) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.fc#mm")
  %e = math.exp %x : !t loc("h.0.act#exp")
  %n = arith.negf %e : !t loc("h.0.neg#neg")
  %t = arith.addf %e, %e : !t loc("h.0.twice#add")
  %z = linalg.matmul ins(%x, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.other#mm")
  %p = linalg.matmul ins(%n, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.one#mm")
  %q = linalg.matmul ins(%t, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.two#mm")
  %dn = linalg.matmul ins(%n, %a : !t, !t) outs(%fill : !t) -> !t loc("h.0.one#mm, backward")
  %dt = linalg.matmul ins(%t, %a : !t, !t) outs(%fill : !t) -> !t loc("h.0.two#mm, backward")
  %x1 = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1.fc#mm")
  %e1 = math.exp %x1 : !t loc("h.1.act#exp")
  %n1 = arith.negf %e1 : !t loc("h.1.neg#neg")
  %t1 = arith.addf %e1, %e1 : !t loc("h.1.twice#add")
  %p1 = linalg.matmul ins(%n1, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1.one#mm")
  %q1 = linalg.matmul ins(%t1, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1.two#mm")
  %dn1 = linalg.matmul ins(%n1, %a : !t, !t) outs(%fill : !t) -> !t loc("h.1.one#mm, backward")
  %dt1 = linalg.matmul ins(%t1, %a : !t, !t) outs(%fill : !t) -> !t loc("h.1.two#mm, backward")
  return %z, %p, %q, %dn, %dt, %p1, %q1, %dn1, %dt1 : !t, !t, !t, !t, !t, !t, !t, !t, !t
}

// -----

// What the backward pass needs in memory is compared there, not in the kernel of the forward pass that makes it.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]] = linalg.matmul
// CHECK: %[[APART:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[Y]])
// CHECK: linalg.matmul ins(%[[Y]]
// CHECK: linalg.generic {{.*}} ins(%[[APART]]
// WHY: 0 bytes freed between the passes, 0 bytes more moved
#same = affine_map<(i, j) -> (i, j)>
func.func @step(%a: tensor<256x256xf32>, %w: tensor<256x256xf32>)
    -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xi1>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x256xf32>
  %bits = tensor.empty() : tensor<256x256xi1>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x256xf32>) -> tensor<256x256xf32>
  %y = linalg.matmul ins(%a, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.fc#mm")
  %dw = linalg.matmul ins(%y, %a : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.proj#mm, backward")
  %mask = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<256x256xf32>) outs(%bits : tensor<256x256xi1>) {
    ^bb0(%i: f32, %o: i1):
      %n = arith.cmpf ole, %i, %zero : f32
      linalg.yield %n : i1
  } -> tensor<256x256xi1> loc("h.0.act#le, backward")
  return %y, %dw, %mask : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xi1>
}

// -----

// Near misses: a scalar, and what only a loop reads, through a view.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier_start
// WHY: 0 bytes freed between the passes, 0 bytes more moved
#row = affine_map<(i) -> (i)>
func.func @step(%a: tensor<256x256xf32>, %w: tensor<256x256xf32>, %t: tensor<f32>)
    -> (tensor<65536xf32>, tensor<1xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x256xf32>
  %flat = tensor.empty() : tensor<65536xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x256xf32>) -> tensor<256x256xf32>
  %s = tensor.extract %t[] : tensor<f32>
  %y = linalg.matmul ins(%a, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%fill : tensor<256x256xf32>)
      -> tensor<256x256xf32> loc("h.0.fc#mm")
  %seen = tensor.collapse_shape %y [[0, 1]] : tensor<256x256xf32> into tensor<65536xf32> loc("h.0.act#view, backward")
  %z = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]}
      ins(%seen : tensor<65536xf32>) outs(%flat : tensor<65536xf32>) {
    ^bb0(%i: f32, %o: f32):
      %n = arith.mulf %i, %s : f32
      linalg.yield %n : f32
  } -> tensor<65536xf32> loc("h.0.act#mul, backward")
  %square = arith.mulf %s, %s : f32 loc("h.0.act#square, backward")
  %one = tensor.from_elements %square : tensor<1xf32> loc("h.0.act#one, backward")
  return %z, %one : tensor<65536xf32>, tensor<1xf32>
}
