// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK: "dm.lane"() {queue = #dm.queue<"compute">, sym_name = "compute"} : () -> ()
// CHECK-NEXT: "dm.lane"() {channel = @dp, queue = #dm.queue<"comm">, sym_name = "dp"} : () -> ()
// CHECK-NEXT: "dm.lane"() {queue = #dm.queue<"copy_in">, sym_name = "copy_in"} : () -> ()
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
