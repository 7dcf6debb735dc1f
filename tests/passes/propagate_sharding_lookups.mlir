// RUN: dmc-opt %s -p "dm-propagate-sharding{reasons=true}" --split-input-file | %FileCheck %s

// A table of many rows, kept in columns: each rank looks up its columns of all rows, which are then exchanged.
// CHECK-LABEL: func.func @step
// CHECK: decomposition = @look, dm.loops = {{\[}}[], ["dp"], []], dm.reason = "{{.*}}its columns are looked up where they are (128 B before what follows, else 4096 B)", dm.sharding = [#dm.sharding<@mesh, {{\[}}["dp"], []], {}>]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @look(%t: tensor<256x4xf32>, %i: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}
func.func @step(%t: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %i: tensor<8xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> tensor<8x4xf32> {
  %y = "dm.composite"(%t, %i) {kind = "embedding", decomposition = @look, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// A head that casts the table gathers the narrow one, later: that does not count.
// CHECK-LABEL: func.func @step
// CHECK: decomposition = @look, {{.*}}its columns are looked up where they are
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @look(%t: tensor<256x4xf32>, %i: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}
func.func @step(%t: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %i: tensor<8xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<8x4xf32>, tensor<256x4xbf16>) {
  %y = "dm.composite"(%t, %i) {kind = "embedding", decomposition = @look, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %e = tensor.empty() : tensor<256x4xbf16>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<256x4xf32>) outs(%e : tensor<256x4xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %c = arith.truncf %in : f32 to bf16
    linalg.yield %c : bf16
  } -> tensor<256x4xbf16>
  return %y, %n : tensor<8x4xf32>, tensor<256x4xbf16>
}

// -----

// Near miss: another reader needs the whole table in its own type, so it is there for both.
// CHECK-LABEL: func.func @step
// CHECK-NOT: looked up
// CHECK: decomposition = @look, dm.loops = {{\[}}[], [], ["dp"]]
// CHECK-NOT: looked up
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @look(%t: tensor<256x4xf32>, %i: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}
func.func @step(%t: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %i: tensor<8xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}, %x: tensor<8x256xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %y = "dm.composite"(%t, %i) {kind = "embedding", decomposition = @look, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %p = linalg.matmul ins(%x, %t : tensor<8x256xf32>, tensor<256x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y, %p : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// Near miss: of two lookups of one table, one has so many rows that exchanging them moves more than the table.
// CHECK-LABEL: func.func @step
// CHECK-NOT: looked up
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @few(%t: tensor<256x4xf32>, %i: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}
func.func private @many(%t: tensor<256x4xf32>, %i: tensor<512xi64>) -> tensor<512x4xf32> {
  %e = tensor.empty() : tensor<512x4xf32>
  return %e : tensor<512x4xf32>
}
func.func @step(%t: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %i: tensor<8xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}, %j: tensor<512xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<8x4xf32>, tensor<512x4xf32>) {
  %y = "dm.composite"(%t, %i) {kind = "embedding", decomposition = @few, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %z = "dm.composite"(%t, %j) {kind = "embedding", decomposition = @many, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<512xi64>) -> tensor<512x4xf32>
  return %y, %z : tensor<8x4xf32>, tensor<512x4xf32>
}

// -----

// Near misses: a table that is kept in rows, and one that is read at a computed place, too.
// CHECK-LABEL: func.func @step
// CHECK-NOT: looked up
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @look(%t: tensor<256x4xf32>, %i: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}
func.func @step(%t: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %u: tensor<256x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>, dm.used = #dm.sharding<@mesh, [[], []], {}>}, %i: tensor<8xi64> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>) {
  %y = "dm.composite"(%t, %i) {kind = "embedding", decomposition = @look, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %z = "dm.composite"(%u, %i) {kind = "embedding", decomposition = @look, parameters = {padding_index = -1}} : (tensor<256x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %e = tensor.empty() : tensor<8xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %r = arith.index_cast %in : i64 to index
    %zero = arith.constant 0 : index
    %c = tensor.extract %u[%r, %zero] : tensor<256x4xf32>
    linalg.yield %c : f32
  } -> tensor<8xf32>
  return %y, %z, %g : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>
}
