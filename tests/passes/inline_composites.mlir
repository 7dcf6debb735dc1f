// RUN: dmc-opt %s -p dm-inline-composites --split-input-file | %FileCheck %s --implicit-check-not=dm.composite --implicit-check-not=call --implicit-check-not=private

// Both uses get the body, each with its own operands, and results keep their order; nothing is folded on the way.
// CHECK-LABEL: func.func @two_uses
// CHECK-SAME: (%[[A:[^:]+]]: tensor<4xf32>, %[[B:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: arith.negf %[[A]]
// CHECK-NEXT: %[[Y:.+]] = arith.subf %[[A]], %[[B]]
// CHECK-NEXT: %[[Z:.+]] = arith.subf %[[Y]], %[[A]]
// CHECK: return %[[Y]], %[[Z]]
func.func @two_uses(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %dead = arith.negf %a : tensor<4xf32>
  %copy, %y = "dm.composite"(%a, %b) {kind = "k", decomposition = @k_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %same, %z = "dm.composite"(%y, %copy) {kind = "k", decomposition = @k_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %same, %z : tensor<4xf32>, tensor<4xf32>
}
func.func private @k_0(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.subf %x, %w : tensor<4xf32>
  return %x, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A composite inside a decomposition, inside a loop: all of it is resolved, where it stands.
// CHECK-LABEL: func.func @nested
// CHECK-SAME: (%[[A:[^:]+]]: tensor<4xf32>,
// CHECK: scf.for {{.*}} iter_args(%[[CARRIED:.+]] = %[[A]])
// CHECK: %[[S:.+]] = arith.mulf %[[CARRIED]], %[[CARRIED]]
// CHECK: %[[T:.+]] = math.tanh %[[S]]
// CHECK: scf.yield %[[T]]
func.func @nested(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> tensor<4xf32> {
    %y = "dm.composite"(%x) {kind = "outer", decomposition = @outer_0, parameters = {}}
        : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
func.func private @outer_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "dm.composite"(%x) {kind = "inner", decomposition = @inner_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.mulf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A composite that does nothing leaves nothing; nor does a private function that nobody calls.
// CHECK-LABEL: func.func @identity
// CHECK-SAME: (%[[A:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: return %[[A]]
func.func @identity(%a: tensor<4xf32>) -> tensor<4xf32> {
  %y = "dm.composite"(%a) {kind = "k", decomposition = @k_0, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @k_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @uncalled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @k_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Near miss: operations that could be folded or merged, and public functions, stay as they are.
// CHECK-LABEL: func.func @untouched
// CHECK-SAME: (%[[A:[^:]+]]: tensor<4xf32>)
// CHECK-NEXT: %[[FIRST:.+]] = arith.negf %[[A]]
// CHECK-NEXT: %[[SECOND:.+]] = arith.negf %[[A]]
// CHECK-NEXT: return %[[FIRST]], %[[SECOND]]
func.func @untouched(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.negf %a : tensor<4xf32>
  %1 = arith.negf %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @unused_but_public
func.func @unused_but_public(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
