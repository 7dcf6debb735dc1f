// RUN: dmc-opt %s -p 'dm-recompute' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-recompute{reasons=true}' --split-input-file 2>&1 | %FileCheck %s --check-prefix=WHY

// Of two residual sums the first is made again, by each reader, from the value before it and what was added, which is
// narrow: by the two of the forward pass, and by the one of the backward pass. The second is kept.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = linalg.matmul ins(%arg0
// CHECK: %[[XKEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[X]])
// CHECK: arith.truncf
// CHECK: } -> tensor<256x256xbf16>
// CHECK: %[[DKEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[D:.*]]) : (tensor<256x256xbf16>)
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[D]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[WIDE]] :
// CHECK: linalg.generic {{.*}} ins(%[[S]] :
// CHECK: math.exp
// CHECK: %[[OTHER:.*]] = linalg.generic {{.*}} ins(%[[D]] :
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[OTHER]] :
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%[[OWN]], %{{[0-9]+}} :
// CHECK: linalg.generic {{.*}} ins(%[[XKEPT]], %[[XKEPT]] :
// CHECK: %[[LATE:.*]] = linalg.generic {{.*}} ins(%[[DKEPT]] :
// CHECK: %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%[[XKEPT]], %[[LATE]] :
// CHECK: linalg.generic {{.*}} ins(%[[AGAIN]], %[[AGAIN]] :
// CHECK: linalg.generic {{.*}} ins(%[[U]], %[[U]] :
// WHY: h.*  1  131,072  131,072  h.*.attn, emb  made again
!t = tensor<256x256xf32>
!n = tensor<256x256xbf16>
func.func @step(%a: !t, %w: !t) -> (!t, !t, !t, !t) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("emb#mm")
  %p = linalg.matmul ins(%x, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.attn#mm")
  %d = arith.truncf %p : !t to !n loc("h.0.attn#cast")
  %dw = arith.extf %d : !n to !t loc("h.0#cast")
  %s = arith.addf %x, %dw : !t loc("h.0#add")
  %y = math.exp %s : !t loc("h.0.act#exp")
  %q = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.mlp#mm")
  %e = arith.truncf %q : !t to !n loc("h.0.mlp#cast")
  %ew = arith.extf %e : !n to !t loc("h.0#cast")
  %u = arith.addf %s, %ew : !t loc("h.0#add")
  %dx = arith.mulf %x, %x : !t loc("emb#mul, backward")
  %ds = arith.mulf %s, %s : !t loc("h.0#mul, backward")
  %du = arith.mulf %u, %u : !t loc("h.0#mul, backward")
  return %u, %dx, %ds, %du : !t, !t, !t, !t
}

// -----

// Near misses: what was added is as wide; a product reads the sum in memory; so many kernels read it that each would
// read more than the one with the sum no longer moves.
// CHECK-LABEL: func.func @step
// CHECK-NOT: compute_barrier_start
// CHECK-COUNT-3: arith.addf
// CHECK-NOT: arith.addf
// WHY: 0 bytes freed between the passes, 0 bytes more moved
!t = tensor<256x256xf32>
!n = tensor<256x256xbf16>
func.func @step(%a: !t, %w: !t) -> (!t, !t, !t, !t, !t, !t, !t, !t, !t) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("emb#mm")
  %p = linalg.matmul ins(%x, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.attn#mm")
  %s = arith.addf %x, %p : !t loc("h.0#add")
  %y = math.exp %s : !t loc("h.0.act#exp")
  %y0 = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0.mlp#mm")

  %x1 = linalg.matmul ins(%w, %a : !t, !t) outs(%fill : !t) -> !t loc("h.1#mm")
  %p1 = linalg.matmul ins(%x1, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1.attn#mm")
  %d1 = arith.truncf %p1 : !t to !n loc("h.1.attn#cast")
  %w1 = arith.extf %d1 : !n to !t loc("h.1#cast")
  %s1 = arith.addf %x1, %w1 : !t loc("h.1#add")
  %y1 = linalg.matmul ins(%s1, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1.mlp#mm")

  %x2 = linalg.matmul ins(%w, %w : !t, !t) outs(%fill : !t) -> !t loc("h.2#mm")
  %p2 = linalg.matmul ins(%x2, %w : !t, !t) outs(%fill : !t) -> !t loc("h.2.attn#mm")
  %d2 = arith.truncf %p2 : !t to !n loc("h.2.attn#cast")
  %w2 = arith.extf %d2 : !n to !t loc("h.2#cast")
  %s2 = arith.addf %x2, %w2 : !t loc("h.2#add")
  %r0 = math.exp %s2 : !t loc("h.2.a#exp")
  %r1 = math.tanh %s2 : !t loc("h.2.b#tanh")
  %r2 = math.erf %s2 : !t loc("h.2.c#erf")
  %r3 = math.absf %s2 : !t loc("h.2.d#abs")
  %r4 = arith.negf %s2 : !t loc("h.2.e#neg")

  %ds = arith.mulf %s, %x : !t loc("h.0#mul, backward")
  %ds1 = arith.mulf %s1, %x1 : !t loc("h.1#mul, backward")
  %ds2 = arith.mulf %s2, %x2 : !t loc("h.2#mul, backward")
  %dy = linalg.matmul ins(%y0, %y1 : !t, !t) outs(%fill : !t) -> !t loc("h.0#mm, backward")
  return %dy, %ds, %ds1, %ds2, %r0, %r1, %r2, %r3, %r4 : !t, !t, !t, !t, !t, !t, !t, !t, !t
}

// -----

// A constant that both passes share, with the backward pass's name, makes nothing part of that pass.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = linalg.matmul
// CHECK: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[X]])
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]] :
!t = tensor<256x256xf32>
func.func @step(%a: !t, %w: !t) -> (!t, !t) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : !t loc("h.0.act#exp, backward")
  %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t loc("h.0#fill, backward")
  %x = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("h.0#mm")
  %y = math.exp %x : !t loc("h.0.act#exp")
  %z = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t) -> !t loc("h.1#mm")
  %dx = linalg.matmul ins(%y, %z : !t, !t) outs(%fill : !t) -> !t loc("h.0.act#mm, backward")
  %dy = arith.mulf %x, %y : !t loc("h.0.act#mul, backward")
  return %dx, %dy : !t, !t
}
