// RUN: dmc-opt %s -p "dm-propagate-sharding{reasons=true}" --split-input-file | %FileCheck %s

// Rows of the batch stay split; what sums over them is a partial sum, also through a reshape.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {dm.loops = {{\[}}["dp"], [], []], dm.reason = "dp splits operand 0", dm.sharding = [#dm.sharding<@mesh, {{\[}}["dp"], []], {}>]}
// CHECK: linalg.transpose {{.*}} {dm.loops = {{\[}}[], ["dp"]], dm.reason = "dp splits operand 0", dm.sharding = [#dm.sharding<@mesh, {{\[}}[], ["dp"]], {}>]}
// CHECK: linalg.matmul {dm.loops = {{\[}}[], [], ["dp"]], dm.reason = "dp splits operand 0", dm.sharding = [#dm.sharding<@mesh, {{\[}}[], []], {dp = #dm.reduction<"sum">}>]}
// CHECK: tensor.collapse_shape {{.*}} {dm.partial = {dp = #dm.reduction<"sum">}, dm.reason = "partial (sum) over dp goes through", dm.sharding = [#dm.sharding<@mesh, {{\[}}[]], {dp = #dm.reduction<"sum">}>]}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<6x4xf32>, %x: tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>})
    -> (tensor<8x4xf32>, tensor<24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %et = tensor.empty() : tensor<6x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x6xf32>) outs(%et : tensor<6x8xf32>) permutation = [1, 0]
  %eg = tensor.empty() : tensor<6x4xf32>
  %fg = linalg.fill ins(%zero : f32) outs(%eg : tensor<6x4xf32>) -> tensor<6x4xf32>
  %g = linalg.matmul ins(%t, %y : tensor<6x8xf32>, tensor<8x4xf32>) outs(%fg : tensor<6x4xf32>) -> tensor<6x4xf32>
  %c = tensor.collapse_shape %g [[0, 1]] : tensor<6x4xf32> into tensor<24xf32>
  return %y, %c : tensor<8x4xf32>, tensor<24xf32>
}

// -----

// What all readers of a value want split is split where it is made; a slice of what is replicated is free.
// CHECK-LABEL: func.func @step
// CHECK: math.exp %{{.*}} {dm.loops = {{\[}}[], ["tp"]], dm.reason = "tp splits result 0, as its readers want"
// CHECK: linalg.matmul {dm.loops = {{\[}}[], [], ["tp"]]
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<6x4xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}, %x: tensor<8x6xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %h = math.exp %x : tensor<8x6xf32>
  %y = linalg.matmul ins(%h, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// Near miss: another reader wants it whole, so it is made whole.
// CHECK-LABEL: func.func @step
// CHECK: math.exp %{{[^ ]+}} : tensor<8x6xf32>
// CHECK: linalg.matmul {dm.loops = {{\[}}[], [], ["tp"]]
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<6x4xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}, %x: tensor<8x6xf32>) -> (tensor<8x4xf32>, tensor<8x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %h = math.exp %x : tensor<8x6xf32>
  %y = linalg.matmul ins(%h, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y, %h : tensor<8x4xf32>, tensor<8x6xf32>
}

// -----

// Of two splits over one axis that which moves fewer bytes stays: the small matrix is brought to the large one.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {dm.loops = {{\[}}["tp"], [], []], dm.reason = "tp splits operand 0 (64 B, else {{[0-9]+}} B)"
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x4xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>},
                %x: tensor<64x4xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) -> (tensor<64x4xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<64x4xf32>, tensor<4x4xf32>) outs(%f : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %y : tensor<64x4xf32>
}

// -----

// Near misses: what is not linear takes no partial sum, and a dimension that is sliced must be whole.
// CHECK-LABEL: func.func @step
// CHECK: linalg.generic {{.*}}dm.loops = {{\[}}["dp"]], dm.reason = "dp splits operand 0", dm.sharding = [#dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>]
// CHECK: math.exp %{{[^ ]+}} : tensor<f32>
// CHECK: tensor.extract_slice {{.*}} {dm.reason = "dp splits operand 0, but a slice of the dimension is taken"} : tensor<8xf32> to tensor<3xf32>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<f32>, tensor<3xf32>) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<8xf32>) outs(%zero : tensor<f32>) {
    ^bb0(%a: f32, %sum: f32):
      %r = arith.addf %sum, %a : f32
      linalg.yield %r : f32
  } -> tensor<f32>
  %y = math.exp %s : tensor<f32>
  %p = tensor.extract_slice %x[1] [3] [1] : tensor<8xf32> to tensor<3xf32>
  return %y, %p : tensor<f32>, tensor<3xf32>
}

// -----

// A sum that a loop takes stays partial until the loop has ended.
// CHECK-LABEL: func.func @step
// CHECK: arith.addf {{.*}} {dm.partial = {dp = #dm.reduction<"sum">}
// CHECK: } {dm.reason = "as its body returns it", dm.sharding = [#dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>]}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %total = scf.for %i = %0 to %3 step %1 iter_args(%c = %zero) -> tensor<f32> {
    %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
        ins(%x : tensor<8xf32>) outs(%zero : tensor<f32>) {
      ^bb0(%a: f32, %sum: f32):
        %r = arith.addf %sum, %a : f32
        linalg.yield %r : f32
    } -> tensor<f32>
    %n = arith.addf %c, %s : tensor<f32>
    scf.yield %n : tensor<f32>
  }
  return %total : tensor<f32>
}

// -----

// A composite is split as its kind allows. Where it would have to gather, its decomposition takes its place.
// CHECK-LABEL: func.func @step
// CHECK: "dm.composite"({{.*}}) {decomposition = @gelu_0, dm.loops = {{\[}}["tp"], []], {{.*}} kind = "gelu"
// CHECK-NOT: kind = "dropout"
// CHECK: math.absf %{{.*}} {dm.loops = {{\[}}["tp"], []]
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x4xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}, %n: tensor<i64>) -> tensor<8x4xf32> {
  %y = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = "dm.composite"(%y, %n, %n) {kind = "dropout", decomposition = @dropout_0, parameters = {p = 0.5 : f64}} : (tensor<8x4xf32>, tensor<i64>, tensor<i64>) -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}
func.func private @gelu_0(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  return %x : tensor<8x4xf32>
}
func.func private @dropout_0(%x: tensor<8x4xf32>, %seed: tensor<i64>, %draw: tensor<i64>) -> tensor<8x4xf32> {
  %y = math.absf %x : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// A pin holds along its axes, however the value is made: the product is a partial sum, and is kept scattered. What reads
// it takes it so.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {dm.loops = {{\[}}[], [], ["dp"]], {{.*}}dm.sharding = [#dm.sharding<@mesh, {{\[}}["dp"], []], {}>]}
// CHECK: math.exp %{{.+}} {dm.loops = {{\[}}["dp"], []], {{.*}}dm.sharding = [#dm.sharding<@mesh, {{\[}}["dp"], []], {}>]}
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<4x8xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["dp"]], {}>},
                %dy: tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}) -> tensor<4x6xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x6xf32>
  %g = linalg.matmul {dm.pin = [{at = #dm.sharding<@mesh, [["dp"], []], {}>, along = ["dp"], brought = ["dp"]}]}
      ins(%x, %dy : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zero : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = math.exp %g : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// A sum that is partial goes on so: what every rank has whole is added in parts, and the sum is completed once.
// CHECK-LABEL: func.func @step
// CHECK: "dm.composite"(%arg0, %{{.+}}) {{.*}}dm.loops = {{\[}}["dp"]]{{.*}}dm.sharding = [#dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>]
// CHECK: "dm.composite"(%arg1, %{{.+}}) {{.*}}dm.loops = {{\[}}["dp"]]{{.*}}dm.sharding = [#dm.sharding<@mesh, [], {dp = #dm.reduction<"sum">}>]
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @squares(%x: tensor<8xf32>, %sum: tensor<f32>) -> tensor<f32> {
  return %sum : tensor<f32>
}
func.func @step(%g: tensor<8xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}, %h: tensor<8xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %a = "dm.composite"(%g, %zero) {kind = "sum_of_squares", decomposition = @squares, parameters = {}} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %b = "dm.composite"(%h, %a) {kind = "sum_of_squares", decomposition = @squares, parameters = {}} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %b : tensor<f32>
}

// -----

// The gradient of a table: where the rows of all ranks are more bytes than sums of the table, every rank adds its own, and
// the tables are summed; else every rank adds all of them.
// CHECK-LABEL: func.func @step
// CHECK: "dm.composite"(%arg0, %arg1) {{.*}}dm.loops = {{\[}}["dp"], [], []], dm.reason = "dp splits operand 0 (128 B, else 320 B)", dm.sharding = [#dm.sharding<@mesh, {{\[}}[], []], {dp = #dm.reduction<"sum">}>]
// CHECK: "dm.composite"(%arg0, %arg1) {decomposition = @many, dm.reason = "every rank of dp does the little work of all (320 B, else 8192 B)"
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func private @many(%dy: tensor<16x4xf32>, %index: tensor<16xi32>) -> tensor<256x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<256x4xf32>
  return %zero : tensor<256x4xf32>
}
func.func private @few(%dy: tensor<16x4xf32>, %index: tensor<16xi32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  return %zero : tensor<4x4xf32>
}
func.func @step(%dy: tensor<16x4xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>},
                %index: tensor<16xi32> {dm.sharding = #dm.sharding<@mesh, [["dp"]], {}>}) -> (tensor<256x4xf32>, tensor<4x4xf32>) {
  %b = "dm.composite"(%dy, %index) {kind = "embedding_backward", decomposition = @few, parameters = {rows = 4, padding_index = -1}} : (tensor<16x4xf32>, tensor<16xi32>) -> tensor<4x4xf32>
  %a = "dm.composite"(%dy, %index) {kind = "embedding_backward", decomposition = @many, parameters = {rows = 256, padding_index = -1}} : (tensor<16x4xf32>, tensor<16xi32>) -> tensor<256x4xf32>
  return %a, %b : tensor<256x4xf32>, tensor<4x4xf32>
}
