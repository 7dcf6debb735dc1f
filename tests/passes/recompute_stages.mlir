// RUN: dmc-opt %s -p 'dm-recompute' --split-input-file | %FileCheck %s

// A stage of a pipeline receives its next micro-batch when the gradient of the one before has been sent. It does not depend
// on that: what the forward pass of the next one computes, its backward pass makes again.
// CHECK-LABEL: func.func @step
// CHECK: "dm.send"
// CHECK: "dm.recv"
// CHECK: %[[SUM:.*]] = linalg.matmul
// CHECK: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[SUM]])
// CHECK: linalg.generic {{.*}} ins(%[[SUM]]
// CHECK: math.exp
// CHECK: linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]]
// CHECK: math.exp
// CHECK: linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]]
#same = affine_map<(i, j) -> (i, j)>
!t = tensor<256x256xf32>
module attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"nvlink">]} : () -> ()
  func.func @step(%g: !t, %w: !t) -> (!t, !t, !t) {
    %before = arith.negf %g : !t loc("h.0#aten.neg, backward")
    %h0, %t0 = "dm.start"(%before) ({
    ^bb0(%0: !t):
      "dm.send"(%0) {target = 0 : i64, instance = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : (!t) -> ()
      "dm.yield"() : () -> ()
    }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (!t) -> (!dm.handle<none>, !dm.token)
    "dm.wait"(%h0) : (!dm.handle<none>) -> ()
    %h1, %t1 = "dm.start"(%t0) ({
      %0 = "dm.recv"() {source = 0 : i64, instance = 1 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> !t
      "dm.yield"(%0) : (!t) -> ()
    }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 0, 1>} : (!dm.token) -> (!dm.handle<!t>, !dm.token)
    %a = "dm.wait"(%h1) : (!dm.handle<!t>) -> !t
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : !t
    %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
    %sum = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t)
        -> !t loc("h.0.fc#mm")
    %x = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%sum : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.negf %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.fc#neg")
    %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = math.exp %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.act#exp")
    %next = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t)
        -> !t loc("h.0.proj#mm")
    %dw = linalg.matmul ins(%y, %next : !t, !t) outs(%fill : !t)
        -> !t loc("h.0.proj#mm, backward")
    %dx = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.mulf %i, %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.act#mul, backward")
    return %next, %dw, %dx : !t, !t, !t
  }
}

// -----

// What is computed of a received value alone, too: it is no constant.
// CHECK-LABEL: func.func @step
// CHECK: "dm.recv"
// CHECK: %[[A:.*]] = "dm.wait"
// CHECK: %[[KEPT:.*]] = "iree_tensor_ext.compute_barrier_start"(%[[A]])
// CHECK: linalg.generic {{.*}} ins(%[[A]]
// CHECK: math.exp
// CHECK: linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]]
// CHECK: math.exp
#same = affine_map<(i, j) -> (i, j)>
!t = tensor<256x256xf32>
module attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"nvlink">]} : () -> ()
  func.func @step(%g: !t, %w: !t) -> (!t, !t, !t) {
    %before = arith.negf %g : !t loc("h.0#aten.neg, backward")
    %h0, %t0 = "dm.start"(%before) ({
    ^bb0(%0: !t):
      "dm.send"(%0) {target = 0 : i64, instance = 0 : i64, group = #dm.group<@mesh, ["pp"]>} : (!t) -> ()
      "dm.yield"() : () -> ()
    }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (!t) -> (!dm.handle<none>, !dm.token)
    "dm.wait"(%h0) : (!dm.handle<none>) -> ()
    %h1, %t1 = "dm.start"(%t0) ({
      %0 = "dm.recv"() {source = 0 : i64, instance = 1 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> !t
      "dm.yield"(%0) : (!t) -> ()
    }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 0, 1>} : (!dm.token) -> (!dm.handle<!t>, !dm.token)
    %a = "dm.wait"(%h1) : (!dm.handle<!t>) -> !t
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : !t
    %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
    %x = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%a : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.negf %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.fc#neg")
    %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = math.exp %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.act#exp")
    %next = linalg.matmul ins(%y, %w : !t, !t) outs(%fill : !t)
        -> !t loc("h.0.proj#mm")
    %dw = linalg.matmul ins(%y, %next : !t, !t) outs(%fill : !t)
        -> !t loc("h.0.proj#mm, backward")
    %dx = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.mulf %i, %i : f32
        linalg.yield %n : f32
    } -> !t loc("h.0.act#mul, backward")
    return %next, %dw, %dx : !t, !t, !t
  }
}
