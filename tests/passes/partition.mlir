// RUN: dmc-opt %s -p dm-partition --split-input-file | %FileCheck %s

// Each rank has its rows; the partial sum is completed where it leaves.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<6x4xf32> {dm.sharding = #dm.sharding<@mesh, {{\[}}[], []], {}>}, %[[X:[^:]+]]: tensor<4x6xf32> {{[^)]*}})
// CHECK-SAME: -> (tensor<6x4xf32> {dm.sharding = #dm.sharding<@mesh, {{\[}}[], []], {}>})
// CHECK: %[[F:.+]] = linalg.fill {{.*}} -> tensor<4x4xf32>
// CHECK: %[[Y:.+]] = linalg.matmul ins(%[[X]], %[[W]] : tensor<4x6xf32>, tensor<6x4xf32>) outs(%[[F]] : tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[T:.+]] = linalg.transpose ins(%[[X]] : tensor<4x6xf32>) outs(%{{.+}} : tensor<6x4xf32>)
// CHECK: %[[G:.+]] = linalg.matmul ins(%[[T]], %[[Y]] : tensor<6x4xf32>, tensor<4x4xf32>)
// CHECK: %[[R:.+]] = "dm.reshard"(%[[G]]) {source = #dm.sharding<@mesh, {{\[}}[], []], {dp = #dm.reduction<"sum">}>, target = #dm.sharding<@mesh, {{\[}}[], []], {}>}
// CHECK: return %[[R]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<6x4xf32>, %x: tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> tensor<6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = linalg.matmul {dm.loops = [["dp"], [], []], dm.sharding = [#dm.sharding<@mesh, [["dp"], []], {}>]} ins(%x, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %et = tensor.empty() : tensor<6x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x6xf32>) outs(%et : tensor<6x8xf32>) permutation = [1, 0] {dm.loops = [[], ["dp"]], dm.sharding = [#dm.sharding<@mesh, [[], ["dp"]], {}>]}
  %eg = tensor.empty() : tensor<6x4xf32>
  %fg = linalg.fill ins(%zero : f32) outs(%eg : tensor<6x4xf32>) -> tensor<6x4xf32>
  %g = linalg.matmul {dm.loops = [[], [], ["dp"]], dm.sharding = [#dm.sharding<@mesh, [[], []], {dp = #dm.reduction<"sum">}>]} ins(%t, %y : tensor<6x8xf32>, tensor<8x4xf32>) outs(%fg : tensor<6x4xf32>) -> tensor<6x4xf32>
  return %g : tensor<6x4xf32>
}

// -----

// Near miss: what says nothing is computed on whole values, and one gather serves both readers.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32>
// CHECK-NEXT: %[[W:.+]] = "dm.reshard"(%[[X]]) {{.*}} -> tensor<8xf32>
// CHECK-NEXT: %[[A:.+]] = math.exp %[[W]] : tensor<8xf32>
// CHECK-NEXT: %[[B:.+]] = arith.addf %[[A]], %[[W]] : tensor<8xf32>
// CHECK-NEXT: return %[[B]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> tensor<8xf32> {
  %a = math.exp %x : tensor<8xf32>
  %b = arith.addf %a, %x : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// A result with an argument's name goes as the argument came; an argument is first brought where it says it is used.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, {{\[}}["dp"]], {}>}
// CHECK-SAME: -> (tensor<4xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, {{\[}}["dp"]], {}>})
// CHECK-NEXT: %[[W:.+]] = "dm.reshard"(%[[X]]) {{.*}} -> tensor<8xf32>
// CHECK-NEXT: %[[A:.+]] = math.exp %[[W]] : tensor<8xf32>
// CHECK-NEXT: %[[R:.+]] = "dm.reshard"(%[[A]]) {{.*}} -> tensor<4xf32>
// CHECK-NEXT: return %[[R]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[]], {}>}) -> (tensor<8xf32> {dm.name = "w"}) {
  %a = math.exp %x : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// The place in a split loop is read from a slice of all places; in a whole loop (d1) it stays.
// CHECK-LABEL: func.func @step
// CHECK: %[[I:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<8xi64>)
// CHECK: %[[P:.+]] = "dm.reshard"(%[[I]]) {{.*}} : (tensor<8xi64>) -> tensor<4xi64>
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %[[P]] : tensor<4x3xi64>, tensor<4xi64>)
// CHECK-NEXT: ^bb0(%{{[^:]+}}: i64, %[[PLACE:[^:]+]]: i64, %{{[^:]+}}: i64):
// CHECK-NEXT: %[[ROW:.+]] = arith.index_cast %[[PLACE]] : i64 to index
// CHECK-NEXT: %[[COLUMN:.+]] = linalg.index 1 : index
// CHECK-NEXT: arith.addi %[[ROW]], %[[COLUMN]] : index
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x3xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<8x3xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) {
  %e = tensor.empty() : tensor<8x3xi64>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x3xi64>) outs(%e : tensor<8x3xi64>) attrs = {dm.loops = [["dp"], []], dm.sharding = [#dm.sharding<@mesh, [["dp"], []], {}>]} {
    ^bb0(%a: i64, %o: i64):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %p = arith.addi %i, %j : index
      %c = arith.index_cast %p : index to i64
      %r = arith.addi %a, %c : i64
      linalg.yield %r : i64
  } -> tensor<8x3xi64>
  return %y : tensor<8x3xi64>
}

// -----

// Repeated layers share the decomposition for parts; the one for the whole stays only where something names it.
// CHECK-NOT: func.func private @gelu_0(
// CHECK: func.func private @gelu_0_part0(%{{.+}}: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT: func.func private @gelu_0_part1
// CHECK-LABEL: func.func @step
// CHECK: "dm.composite"{{.*}} {decomposition = @gelu_0_part0, kind = "gelu", parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: "dm.composite"{{.*}} {decomposition = @gelu_0_part0, kind = "gelu", parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @gelu_0(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = math.tanh %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) {
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}, dm.loops = [["dp"]], dm.sharding = [#dm.sharding<@mesh, [["dp"]], {}>]} : (tensor<8xf32>) -> tensor<8xf32>
  %z = "dm.composite"(%y) {kind = "gelu", decomposition = @gelu_0, parameters = {}, dm.loops = [["dp"]], dm.sharding = [#dm.sharding<@mesh, [["dp"]], {}>]} : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

// In a decomposition for parts a slice has the sizes of a part, and so has what is padded.
// CHECK: func.func private @max_pool2d_0_part0(%[[X:.+]]: tensor<2x2x6x6xf32>) -> tensor<2x2x4x4xf32>
// CHECK: %[[PADDED:.+]] = tensor.pad %[[X]] low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: tensor.extract_slice %[[PADDED]][0, 0, 0, 0] [2, 2, 4, 8] [1, 1, 2, 1] : tensor<2x2x8x8xf32> to tensor<2x2x4x8xf32>
// CHECK-LABEL: func.func @step
// CHECK: "dm.composite"({{.+}}) {decomposition = @max_pool2d_0_part0
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @max_pool2d_0(%x: tensor<4x2x6x6xf32>) -> tensor<4x2x4x4xf32> {
  %low = arith.constant 0xFF800000 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%n: index, %c: index, %i: index, %j: index):
      tensor.yield %low : f32
  } : tensor<4x2x6x6xf32> to tensor<4x2x8x8xf32>
  %rows = tensor.extract_slice %padded[0, 0, 0, 0] [4, 2, 4, 8] [1, 1, 2, 1] : tensor<4x2x8x8xf32> to tensor<4x2x4x8xf32>
  %y = tensor.extract_slice %rows[0, 0, 0, 0] [4, 2, 4, 4] [1, 1, 1, 2] : tensor<4x2x4x8xf32> to tensor<4x2x4x4xf32>
  return %y : tensor<4x2x4x4xf32>
}
func.func @step(%x: tensor<4x2x6x6xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], [], [], []], {}>})
    -> (tensor<4x2x4x4xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], [], [], []], {}>}) {
  %y = "dm.composite"(%x) {kind = "max_pool2d", decomposition = @max_pool2d_0, parameters = {}, dm.loops = [["dp"], []], dm.sharding = [#dm.sharding<@mesh, [["dp"], [], [], []], {}>]}
      : (tensor<4x2x6x6xf32>) -> tensor<4x2x4x4xf32>
  return %y : tensor<4x2x4x4xf32>
}

// -----

// A reshard says which argument it takes, or the new value of which, and so it says whose gradient; near miss: no name.
// CHECK-LABEL: func.func @step
// CHECK: "dm.reshard"(%{{.+}}) {dm.tensor = "w", source
// CHECK: "dm.reshard"(%{{.+}}) {source
// CHECK: "dm.reshard"(%{{.+}}) {dm.tensor = "gradient of w", source
// CHECK: "dm.reshard"(%{{.+}}) {dm.tensor = "w", source
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @sgd(%p: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  return %g : tensor<8xf32>
}
func.func @step(%w: tensor<8xf32> {dm.name = "w", dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}, %x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>})
    -> (tensor<8xf32> {dm.name = "w"}) {
  %a = math.exp %w : tensor<8xf32>
  %b = arith.addf %a, %x : tensor<8xf32>
  %g = math.exp %b {dm.loops = [["dp"]], dm.sharding = [#dm.sharding<@mesh, [["dp"]], {}>]} : tensor<8xf32>
  %n = "dm.composite"(%w, %g) {kind = "optimizer_update_sgd", decomposition = @sgd, parameters = {}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %n : tensor<8xf32>
}

// -----

// A table that is split by rows: a rank looks up its own rows, and the sum over the ranks is what was wanted.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[TABLE:[^:]+]]: tensor<2x3xf32>{{.*}} %[[INDEX:[^:]+]]: tensor<5xi64>
// CHECK: %[[PLACES:.+]] = "dm.reshard"({{.+}}) {{.*}}target = #dm.sharding<@mesh, {{\[}}["tp"]], {}>} : (tensor<4xi64>) -> tensor<2xi64>
// CHECK: %[[FIRST:.+]] = tensor.extract %[[PLACES]]
// CHECK: %[[PART:.+]] = linalg.generic {{.*}} ins(%[[INDEX]] : tensor<5xi64>)
// CHECK: arith.subi %{{.+}}, %[[FIRST]]
// CHECK: tensor.extract %[[TABLE]]
// CHECK: arith.select
// CHECK: "dm.reshard"(%[[PART]]) {{.*}}source = #dm.sharding<@mesh, {{\[}}[], []], {tp = #dm.reduction<"sum">}>
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @embedding_0(%table: tensor<4x3xf32>, %index: tensor<5xi64>) -> tensor<5x3xf32> {
  %e = tensor.empty() : tensor<5x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, d) -> (i)>, affine_map<(i, d) -> (i, d)>], iterator_types = ["parallel", "parallel"]}
      ins(%index : tensor<5xi64>) outs(%e : tensor<5x3xf32>) {
    ^bb0(%i: i64, %o: f32):
      %row = arith.index_cast %i : i64 to index
      %column = linalg.index 1 : index
      %v = tensor.extract %table[%row, %column] : tensor<4x3xf32>
      linalg.yield %v : f32
  } -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}
func.func @step(%table: tensor<4x3xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}, %index: tensor<5xi64>) -> tensor<5x3xf32> {
  %y = "dm.composite"(%table, %index) {kind = "embedding", decomposition = @embedding_0, parameters = {padding_index = -1 : i64}, dm.loops = [["tp"], [], []]} : (tensor<4x3xf32>, tensor<5xi64>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// -----

// A rank's part of attention with dropout takes the places of its batches and heads, and draws as the whole does there.
// CHECK: func.func private @attention_0_part0({{.*}}, %[[BATCHES:[^:]+]]: tensor<2xi64>, %[[HEADS:[^:]+]]: tensor<4xi64>)
// CHECK: linalg.generic {{.*}} ins(%[[BATCHES]], %[[HEADS]] : tensor<2xi64>, tensor<4xi64>) outs(%{{.+}} : tensor<2x4xi64>)
// CHECK-NOT: linalg.index
// CHECK-LABEL: func.func @step
// CHECK: %[[B:.+]] = "dm.reshard"(%{{.+}}) {{.*}} : (tensor<6xi64>) -> tensor<2xi64>
// CHECK: "dm.composite"({{.*}}, %[[B]], %{{[^ )]+}}) {decomposition = @attention_0_part0, kind = "attention", parameters = {bias = none, causal = false, p = 5.000000e-01 : f64, scale = 1.000000e+00 : f64, whole_0 = 6 : i64, whole_1 = 4 : i64}}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 3>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @attention_0(%q: tensor<6x4x3x5xf32>, %k: tensor<6x4x3x5xf32>, %v: tensor<6x4x3x5xf32>, %seed: tensor<i64>, %draw: tensor<i64>)
    -> (tensor<6x4x3x5xf32>, tensor<6x4x3x1xf32>) {
  %e = tensor.empty() : tensor<6x4xi64>
  %head = linalg.generic {indexing_maps = [affine_map<(b, h) -> (b, h)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<6x4xi64>) {
    ^bb0(%o: i64):
      %b = linalg.index 0 : index
      %h = linalg.index 1 : index
      %n = arith.addi %b, %h : index
      %r = arith.index_cast %n : index to i64
      linalg.yield %r : i64
  } -> tensor<6x4xi64>
  %f = tensor.empty() : tensor<6x4x3x5xf32>
  %out = linalg.generic {indexing_maps = [affine_map<(b, h, m, d) -> (b, h)>, affine_map<(b, h, m, d) -> (b, h, m, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%head : tensor<6x4xi64>) outs(%f : tensor<6x4x3x5xf32>) {
    ^bb0(%n: i64, %o: f32):
      %r = arith.sitofp %n : i64 to f32
      linalg.yield %r : f32
  } -> tensor<6x4x3x5xf32>
  %level = tensor.extract_slice %out[0, 0, 0, 0] [6, 4, 3, 1] [1, 1, 1, 1] : tensor<6x4x3x5xf32> to tensor<6x4x3x1xf32>
  return %out, %level : tensor<6x4x3x5xf32>, tensor<6x4x3x1xf32>
}
func.func @step(%q: tensor<6x4x3x5xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], [], [], []], {}>}, %n: tensor<i64>)
    -> (tensor<6x4x3x5xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], [], [], []], {}>}) {
  %out, %level = "dm.composite"(%q, %q, %q, %n, %n) {kind = "attention", decomposition = @attention_0, parameters = {bias = none, causal = false, p = 0.5 : f64, scale = 1.0 : f64},
      dm.loops = [["dp"], []], dm.sharding = [#dm.sharding<@mesh, [["dp"], [], [], []], {}>, #dm.sharding<@mesh, [["dp"], [], [], []], {}>]}
      : (tensor<6x4x3x5xf32>, tensor<6x4x3x5xf32>, tensor<6x4x3x5xf32>, tensor<i64>, tensor<i64>) -> (tensor<6x4x3x5xf32>, tensor<6x4x3x1xf32>)
  return %out : tensor<6x4x3x5xf32>
}

// -----

// What is gathered first is what is read first, in whatever order arguments are.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: "dm.reshard"(%arg2)
// CHECK-NEXT: "dm.reshard"(%arg1)
// CHECK-NEXT: "dm.reshard"(%arg0)
// CHECK-NEXT: math.exp
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[]], {}>}, %y: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[]], {}>}, %z: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[]], {}>}) -> tensor<8xf32> {
  %a = math.exp %z : tensor<8xf32>
  %b = arith.addf %a, %y : tensor<8xf32>
  %c = arith.addf %b, %x : tensor<8xf32>
  return %c : tensor<8xf32>
}
