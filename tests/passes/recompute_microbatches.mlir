// RUN: dmc-opt %s -p dm-recompute --mlir-print-debuginfo | %FileCheck %s

// Two micro-batches of a pipeline add the same embeddings of positions. What the backward pass of the second makes again, it
// makes after the second's forward pass, and in no action, so that kernels of any may take it up.
// CHECK: linalg.matmul ins(%{{.*}} loc(#[[F0:.*]])
// CHECK: math.exp
// CHECK: linalg.matmul
// CHECK: math.exp
// CHECK: } -> tensor<256x256xf32> loc(#[[AGAIN0:.*]])
// CHECK: linalg.matmul
// CHECK: linalg.matmul ins(%{{.*}} loc(#[[F1:.*]])
// CHECK: math.exp
// CHECK: linalg.matmul
// CHECK: math.exp
// CHECK: } -> tensor<256x256xf32> loc(#[[AGAIN1:.*]])
// CHECK: linalg.matmul
// CHECK-DAG: #[[F0]] = loc("action 1F0"
// CHECK-DAG: #[[AGAIN0]] = loc("h.0.act#linalg.generic, recomputed"
// CHECK-DAG: #[[F1]] = loc("action 1F1"
// CHECK-DAG: #[[AGAIN1]] = loc("h.0.act#linalg.generic, recomputed"
#same = affine_map<(i, j) -> (i, j)>
!t = tensor<256x256xf32>
module attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
  "dm.mesh"() {sym_name = "mesh", axes = ["pp"], sizes = array<i64: 2>, device = #dm.device<"cuda">, links = [#dm.link<"nvlink">]} : () -> ()
  func.func @step(%a: !t, %b: !t, %w: !t, %e: tensor<256x256xbf16>) -> (!t, !t, !t, !t) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : !t
    %fill = linalg.fill ins(%zero : f32) outs(%empty : !t) -> !t
    %places = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%e : tensor<256x256xbf16>) outs(%empty : !t) {
      ^bb0(%i: bf16, %o: f32):
        %n = arith.extf %i : bf16 to f32
        linalg.yield %n : f32
    } -> !t loc("h#places")
    %sum0 = linalg.matmul ins(%a, %w : !t, !t) outs(%fill : !t) -> !t loc("action 1F0"("h.0.fc#mm"))
    %x0 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%sum0, %places : !t, !t) outs(%empty : !t) {
      ^bb0(%i: f32, %p: f32, %o: f32):
        %n = arith.addf %i, %p : f32
        linalg.yield %n : f32
    } -> !t loc("action 1F0"("h.0.fc#add"))
    %y0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x0 : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = math.exp %i : f32
        linalg.yield %n : f32
    } -> !t loc("action 1F0"("h.0.act#exp"))
    %next0 = linalg.matmul ins(%y0, %w : !t, !t) outs(%fill : !t) -> !t loc("action 1F0"("h.0.proj#mm"))
    %dw0 = linalg.matmul ins(%y0, %next0 : !t, !t) outs(%fill : !t) -> !t loc("action 1B0"("h.0.proj#mm, backward"))
    %dx0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x0 : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.mulf %i, %i : f32
        linalg.yield %n : f32
    } -> !t loc("action 1B0"("h.0.act#mul, backward"))
    %sum1 = linalg.matmul ins(%b, %w : !t, !t) outs(%fill : !t) -> !t loc("action 1F1"("h.0.fc#mm"))
    %x1 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%sum1, %places : !t, !t) outs(%empty : !t) {
      ^bb0(%i: f32, %p: f32, %o: f32):
        %n = arith.addf %i, %p : f32
        linalg.yield %n : f32
    } -> !t loc("action 1F1"("h.0.fc#add"))
    %y1 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x1 : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = math.exp %i : f32
        linalg.yield %n : f32
    } -> !t loc("action 1F1"("h.0.act#exp"))
    %next1 = linalg.matmul ins(%y1, %w : !t, !t) outs(%fill : !t) -> !t loc("action 1F1"("h.0.proj#mm"))
    %dw1 = linalg.matmul ins(%y1, %next1 : !t, !t) outs(%fill : !t) -> !t loc("action 1B1"("h.0.proj#mm, backward"))
    %dx1 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
        ins(%x1 : !t) outs(%empty : !t) {
      ^bb0(%i: f32, %o: f32):
        %n = arith.mulf %i, %i : f32
        linalg.yield %n : f32
    } -> !t loc("action 1B1"("h.0.act#mul, backward"))
    return %dw0, %dx0, %dw1, %dx1 : !t, !t, !t, !t
  }
}
