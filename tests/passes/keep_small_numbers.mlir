// RUN: dmc-opt %s -p dm-keep-small-numbers | %FileCheck %s

// A power of a small number is taken of a larger one, and made smaller; those in f64 are exact as they are.
// CHECK-LABEL: func.func @power
// CHECK-SAME: (%[[X:[^:]+]]: f32, %[[Y:[^:]+]]: f64)
// CHECK: %[[SMALL:.+]] = arith.cmpf olt, %[[X]], %
// CHECK: %[[MOVED:.+]] = arith.select %[[SMALL]], %{{.+}}, %[[X]]
// CHECK: %[[POWER:.+]] = math.exp %[[MOVED]]
// CHECK: %[[RESULT:.+]] = arith.mulf %[[POWER]], %
// CHECK: %[[WIDE:.+]] = math.exp %[[Y]] : f64
// CHECK: return %[[RESULT]], %[[WIDE]]
func.func @power(%x: f32, %y: f64) -> (f32, f64) {
  %0 = math.exp %x : f32
  %1 = math.exp %y : f64
  return %0, %1 : f32, f64
}

// CHECK-LABEL: func.func @logarithm
// CHECK: %[[LOG:.+]] = math.log %
// CHECK: arith.addf %[[LOG]], %
func.func @logarithm(%x: f32) -> f32 {
  %0 = math.log %x : f32
  return %0 : f32
}
