// RUN: dmc-opt --allow-undefined-symbols %s | dmc-opt --allow-undefined-symbols | %FileCheck %s

// In place, as an all-reduce may.
// CHECK: "dm.collective"() {accumulate = f32, count = 16 : i64, instance = 3 : i64, kind = "all_reduce", label = "fc", lane = @dp, ranks = array<i64: 0, 1>, reduction = #dm.reduction<"sum">, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}count = 16 : i64, {{.*}} kind = "all_gather", {{.*}} source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 128]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}{accumulate = f32, {{.*}} kind = "reduce_scatter", {{.*}} reduction = #dm.reduction<"sum">, {{.*}} target = #dm.range<@device, [256, 32]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}kind = "all_to_all", {{.*}} target = #dm.range<@device, [256, 64]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}kind = "broadcast", {{.*}} peer = 1 : i64, {{.*}} target = #dm.range<@device, [256, 64]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}kind = "permute", {{.*}} pairs = array<i64: 0, 1, 1, 0>, {{.*}} target = #dm.range<@device, [256, 64]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}kind = "send", {{.*}} peer = 1 : i64, {{.*}} source = #dm.range<@device, [0, 64]>, type = f32} : () -> ()
// CHECK-NEXT: "dm.collective"() {{.*}}kind = "recv", {{.*}} peer = 1 : i64, ranks = array<i64: 0, 1>, target = #dm.range<@device, [256, 64]>, type = f32} : () -> ()
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, label = "fc"} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_gather", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 128]>} : () -> ()
  "dm.collective"() {lane = @dp, kind = "reduce_scatter", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 32]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_to_all", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>} : () -> ()
  "dm.collective"() {lane = @dp, kind = "broadcast", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, peer = 1 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64: 0, 1, 1, 0>} : () -> ()
  "dm.collective"() {lane = @dp, kind = "send", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, peer = 1 : i64} : () -> ()
  "dm.collective"() {lane = @dp, kind = "recv", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, target = #dm.range<@device, [256, 64]>, peer = 1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
