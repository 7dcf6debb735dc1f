// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// CHECK: "dm.channel"() {group = #dm.group<@mesh, ["dp"]>, sym_name = "gradients"} : () -> ()
// CHECK-NEXT: "dm.channel"() {group = #dm.group<@mesh, ["tp", "dp"]>, sym_name = "all"} : () -> ()
// CHECK-NEXT: "dm.channel"() {groups = [array<i64: 0, 1>, array<i64: 1, 2>, array<i64: 2, 0>], sym_name = "ring"} : () -> ()
"dm.channel"() {sym_name = "gradients", group = #dm.group<@mesh, ["dp"]>} : () -> ()
"dm.channel"() {sym_name = "all", group = #dm.group<@mesh, ["tp", "dp"]>} : () -> ()
"dm.channel"() {sym_name = "ring", groups = [array<i64: 0, 1>, array<i64: 1, 2>, array<i64: 2, 0>]} : () -> ()

// Channels are created in this order on every rank: neither cse nor symbol-dce may touch them.
// RUN: dmc-opt --allow-undefined-symbols %s -p canonicalize,cse,symbol-dce | %FileCheck %s
