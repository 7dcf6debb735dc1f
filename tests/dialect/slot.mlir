// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK: "dm.slot"() {name = "fc.weight", range = #dm.range<@device, [0, 64]>, role = "parameter", type = tensor<4x4xf32>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// A truth value takes a byte, a scalar the bytes of its element.
// CHECK: "dm.slot"() {name = "mask", range = #dm.range<@device, [0, 9]>, role = "batch", type = tensor<9xi1>} : () -> ()
// CHECK-NEXT: "dm.slot"() {name = "lr", range = #dm.range<@device, [256, 2]>, role = "control", type = tensor<bf16>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.slot"() {name = "mask", role = "batch", type = tensor<9xi1>, range = #dm.range<@device, [0, 9]>} : () -> ()
  "dm.slot"() {name = "lr", role = "control", type = tensor<bf16>, range = #dm.range<@device, [256, 2]>} : () -> ()
}) {sym_name = "rank1", ranks = array<i64: 1>} : () -> ()
