// RUN: dmc-opt %s | dmc-opt | %FileCheck %s

// CHECK: "dm.mesh"() {axes = ["dp", "tp"], device = #dm.device<"cuda">, links = [#dm.link<"network">, #dm.link<"nvlink">], sizes = array<i64: 2, 4>, sym_name = "mesh"} : () -> ()
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cuda">, links = [#dm.link<"network">, #dm.link<"nvlink">]} : () -> ()

// One rank.
// CHECK: "dm.mesh"() {axes = ["all"], device = #dm.device<"cpu">, links = [#dm.link<"memory">], sizes = array<i64: 1>, sym_name = "alone"} : () -> ()
"dm.mesh"() {sym_name = "alone", axes = ["all"], sizes = array<i64: 1>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
