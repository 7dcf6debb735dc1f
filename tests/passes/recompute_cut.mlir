// RUN: dmc-opt %s -p 'dm-recompute{target=cuda}' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-recompute{target=cpu}' --split-input-file | %FileCheck %s --check-prefix=CPU
// RUN: dmc-opt %s -p 'dm-recompute{target=cuda reasons=true}' --split-input-file 2>&1 | %FileCheck %s --check-prefix=WHY

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
// CPU-NOT: compute_barrier_start
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
