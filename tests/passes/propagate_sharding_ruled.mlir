// RUN: dmc-opt %s -p "dm-propagate-sharding{reasons=true}" --split-input-file | %FileCheck %s

// A weight that a rule splits stays where it is, although gathering it would move fewer bytes; so does its transposition.
// CHECK-LABEL: func.func @step
// CHECK: linalg.transpose {{.*}} {dm.loops = {{\[}}[], ["tp"]]
// CHECK: linalg.matmul {dm.loops = {{\[}}[], ["tp"], []], dm.reason = "tp splits operand 1, as the plan says
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x2xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>},
                %x: tensor<64x2xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) -> tensor<64x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %et = tensor.empty() : tensor<2x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x2xf32>) outs(%et : tensor<2x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<64x2xf32>, tensor<2x4xf32>) outs(%f : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %y : tensor<64x4xf32>
}

// -----

// One that is not trained, too.
// CHECK-LABEL: func.func @step
// CHECK: linalg.transpose {{.*}} {dm.loops = {{\[}}[], ["tp"]]
// CHECK: linalg.matmul {dm.loops = {{\[}}[], ["tp"], []], dm.reason = "tp splits operand 1, as the plan says
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x2xf32> {dm.name = "w", dm.role = "frozen", dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>},
                %x: tensor<64x2xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) -> tensor<64x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %et = tensor.empty() : tensor<2x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x2xf32>) outs(%et : tensor<2x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<64x2xf32>, tensor<2x4xf32>) outs(%f : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %y : tensor<64x4xf32>
}

// -----

// Near miss: what is no weight, such as a batch, is brought where fewer bytes move.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {dm.loops = {{\[}}["tp"], [], []]
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4x2xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>},
                %x: tensor<64x2xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) -> tensor<64x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %et = tensor.empty() : tensor<2x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x2xf32>) outs(%et : tensor<2x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<64x2xf32>, tensor<2x4xf32>) outs(%f : tensor<64x4xf32>) -> tensor<64x4xf32>
  return %y : tensor<64x4xf32>
}

// -----

// A residual that a norm has read whole is there: what is added to it is summed before, as narrow as it is.
// CHECK-LABEL: func.func @step
// CHECK: math.exp
// CHECK: arith.truncf {{.*}}{dm.partial =
// CHECK: arith.addf %{{[^ ]+}}, %{{[^ ]+}} {dm.reason = "an operand is there, complete over tp{{.*}}"} : tensor<8x4xf32>
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%u: tensor<6x4xf32> {dm.name = "u", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>},
                %x: tensor<8x6xf32> {dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %h = linalg.matmul ins(%x, %u : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %n = math.exp %h : tensor<8x4xf32>
  %o = linalg.matmul ins(%x, %u : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = arith.truncf %o : tensor<8x4xf32> to tensor<8x4xbf16>
  %v = arith.extf %z : tensor<8x4xbf16> to tensor<8x4xf32>
  %r = arith.addf %h, %v : tensor<8x4xf32>
  return %n, %r : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// What a ruled product needs whole is there for all: the gradient of the weight does not move its other factor instead.
// CHECK-LABEL: func.func @step
// CHECK: linalg.matmul {dm.loops = {{\[}}["tp"], [], []], dm.reason = "tp splits operand 0
// CHECK: linalg.matmul {dm.loops = {{\[}}[], ["tp"], []], dm.reason = "tp splits operand 1, as the plan says
"dm.mesh"() {sym_name = "mesh", axes = ["tp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<64x4xf32> {dm.name = "w", dm.role = "parameter", dm.sharding = #dm.sharding<@mesh, [[], ["tp"]], {}>},
                %x: tensor<2x8xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>},
                %dy: tensor<8x64xf32> {dm.sharding = #dm.sharding<@mesh, [["tp"], []], {}>}) -> (tensor<2x64xf32>, tensor<8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %eg = tensor.empty() : tensor<2x64xf32>
  %fg = linalg.fill ins(%zero : f32) outs(%eg : tensor<2x64xf32>) -> tensor<2x64xf32>
  %s = math.exp %dy : tensor<8x64xf32>
  %g = linalg.matmul ins(%x, %s : tensor<2x8xf32>, tensor<8x64xf32>) outs(%fg : tensor<2x64xf32>) -> tensor<2x64xf32>
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %dx = linalg.matmul ins(%s, %w : tensor<8x64xf32>, tensor<64x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %g, %dx : tensor<2x64xf32>, tensor<8x4xf32>
}
