// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK: "dm.arena"() {bytes = 512 : i64, space = #dm.space<"device">, sym_name = "device"} : () -> ()
// CHECK-NEXT: "dm.arena"() {bytes = 512 : i64, space = #dm.space<"pinned_host">, sym_name = "pinned_host"} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 512 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
