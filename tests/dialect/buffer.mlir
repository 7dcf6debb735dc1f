// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK: "dm.buffer"() {category = "gradient", first = 4 : i64, label = "fc.weight", last = 9 : i64, range = #dm.range<@device, [256, 64]>} : () -> ()
// CHECK-NEXT: "dm.buffer"() {category = "scratch", first = 3 : i64, label = "", last = 3 : i64, range = #dm.range<@device, [0, 1]>} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [256, 64]>, first = 4 : i64, last = 9 : i64} : () -> ()
  "dm.buffer"() {label = "", category = "scratch", range = #dm.range<@device, [0, 1]>, first = 3 : i64, last = 3 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
