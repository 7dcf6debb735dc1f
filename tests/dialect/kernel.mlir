// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// Equal computations share one function.
// CHECK-LABEL: func.func @formed
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK: %[[A:[^ ]+]] = "dm.kernel"(%[[X]]) {body = @double} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[B:[^ ]+]] = "dm.kernel"(%[[A]]) {body = @double} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: return %[[B]]
func.func @formed(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = "dm.kernel"(%x) {body = @double} : (tensor<8xf32>) -> tensor<8xf32>
  %b = "dm.kernel"(%a) {body = @double} : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// CHECK-LABEL: func.func private @double
func.func private @double(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = arith.addf %x, %x : tensor<8xf32>
  return %r : tensor<8xf32>
}

// Operands and results of several types; all that dm-select-kernels adds.
// CHECK-LABEL: func.func @selected
// CHECK: "dm.kernel"({{.*}}) {body = @split, bytes = 96 : i64, estimated_ns = 1500 : i64, flops = 8 : i64, implementation = "triton.split", scratch = 256 : i64, tiles = {block = 128 : i64}} : (tensor<8xf32>, tensor<i64>) -> (tensor<i64>, tensor<8xf32>, tensor<8xf32>)
func.func @selected(%x: tensor<8xf32>, %n: tensor<i64>) {
  %y:3 = "dm.kernel"(%x, %n) {body = @split, flops = 8 : i64, bytes = 96 : i64, scratch = 256 : i64, implementation = "triton.split", tiles = {block = 128 : i64}, estimated_ns = 1500 : i64} : (tensor<8xf32>, tensor<i64>) -> (tensor<i64>, tensor<8xf32>, tensor<8xf32>)
  return
}

// A function for each member of a group, where ranks differ.
// CHECK-LABEL: func.func @differs
// CHECK: "dm.kernel"({{.*}}) {body = @left, group = #dm.group<@mesh, ["tp"]>, variants = [@left, @right]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
func.func @differs(%x: tensor<4x8xf32>) {
  %y = "dm.kernel"(%x) {body = @left, variants = [@left, @right], group = #dm.group<@mesh, ["tp"]>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: func.func @nothing_in_and_out
// CHECK: "dm.kernel"() {body = @nothing} : () -> ()
func.func @nothing_in_and_out() {
  "dm.kernel"() {body = @nothing} : () -> ()
  return
}
