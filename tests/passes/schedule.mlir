// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2}" --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2},dm-schedule{machine=h200x2}" --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 algorithm=asis}" --split-input-file | %FileCheck %s --check-prefix=ASIS
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 memory_cap=1000000}" --split-input-file | %FileCheck %s --check-prefix=ROOM
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 reasons memory_cap=60000}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=CAP
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 reasons algorithm=asis}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=FREE
// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 algorithm=prefetch}" --split-input-file | %FileCheck %s --check-prefix=FSDP

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// A reduction runs beside the kernel that does not need it; the kernel that does stays behind the wait.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}label = "first"
// CHECK-NEXT: "dm.start"
// CHECK: "dm.kernel"{{.*}}label = "beside"
// CHECK-NEXT: "dm.wait"
// CHECK-NEXT: "dm.kernel"{{.*}}label = "last"
// ASIS-LABEL: func.func @step
// ASIS: "dm.start"
// ASIS: "dm.wait"
// ASIS-NEXT: "dm.kernel"{{.*}}label = "beside"
// TABLE: movement {{.*}} stopped by
// TABLE-NEXT: all_reduce #0 of y {{ *}}dp {{ *}}4,096 {{ *}}[[NS:[0-9.]+]] {{ *}}first {{ *}}last {{ *}}[[NS]] {{ *}}0.0{{$}}
// TABLE-NEXT: step {{.*}} of which exposed 0.0 µs; peak
// CAP: ; peak {{[0-9,]+}} bytes, limit 60,000 bytes (memory cap){{$}}
// FREE: ; peak {{[0-9,]+}} bytes, no cap{{$}}
func.func private @work(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @both(%x: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<1024xf32> {dm.name = "z"}) {
  %y = "dm.kernel"(%x) {body = @work, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "first"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %h, %t = "dm.start"(%y) ({
  ^bb0(%a: tensor<1024xf32>):
    %r = "dm.all_reduce"(%a) {dm.tensor = "y", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1024xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1024xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %b = "dm.kernel"(%x) {body = @work, flops = 1000000000 : i64, bytes = 8192 : i64, dm.label = "beside"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %z = "dm.kernel"(%s, %b) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "last"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// What a reduction waits for goes first, so that the weight gradient, on which nothing hangs, runs while it is reduced.
// Both are as long as before, but the step is shorter.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}label = "gradient of the input"
// CHECK-NEXT: "dm.start"
// CHECK: "dm.kernel"{{.*}}label = "gradient of the weight"
// CHECK-NEXT: "dm.wait"
// CHECK-NEXT: "dm.kernel"{{.*}}label = "next"
func.func private @work(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<1024xf32> {dm.name = "z"}, tensor<1024xf32> {dm.name = "w"}) {
  %w = "dm.kernel"(%x) {body = @work, flops = 1000000000 : i64, bytes = 8192 : i64, dm.label = "gradient of the weight"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %y = "dm.kernel"(%x) {body = @work, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "gradient of the input"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %h, %t = "dm.start"(%y) ({
  ^bb0(%a: tensor<1024xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1024xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1024xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %z = "dm.kernel"(%s) {body = @work, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "next"} : (tensor<1024xf32>) -> tensor<1024xf32>
  return %z, %w : tensor<1024xf32>, tensor<1024xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// A gather is prefetched where there is room for it; near miss: where the kernel before needs all there is, it stays.
// The peak of the order given is at "narrow": 6144 bytes of arguments, 40960 read, 4096 written.
// ROOM-LABEL: func.func @step
// ROOM: "dm.start"
// ROOM: "dm.kernel"{{.*}}label = "wide"
// ROOM: "dm.wait"
// ROOM-NEXT: "dm.kernel"{{.*}}label = "last"
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}label = "wide"
// CHECK-NEXT: "dm.kernel"{{.*}}label = "narrow"
// CHECK-NEXT: "dm.start"
// CHECK: "dm.wait"
// CHECK-NEXT: "dm.kernel"{{.*}}label = "last"
// TABLE: all_gather #0 of w {{.*}} memory limit at narrow{{$}}
// TABLE-NEXT: step {{.*}}; peak 51,200 bytes, limit 51,200 bytes (no cap: the memory of the given order){{$}}
func.func private @wide(%x: tensor<1024xf32>) -> tensor<10240xf32> attributes {dm.kind = "other"} {
  %y = tensor.empty() : tensor<10240xf32>
  return %y : tensor<10240xf32>
}
func.func private @narrow(%x: tensor<10240xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = tensor.empty() : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @both(%x: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "frozen"}, %w: tensor<512xf32> {dm.name = "w", dm.role = "frozen"}) -> (tensor<1024xf32> {dm.name = "z"}) {
  %u = "dm.kernel"(%x) {body = @wide, flops = 1000000000 : i64, bytes = 8192 : i64, dm.label = "wide"} : (tensor<1024xf32>) -> tensor<10240xf32>
  %v = "dm.kernel"(%u) {body = @narrow, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "narrow"} : (tensor<10240xf32>) -> tensor<1024xf32>
  %h, %t = "dm.start"(%w) ({
  ^bb0(%a: tensor<512xf32>):
    %r = "dm.all_gather"(%a) {dm.tensor = "w", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<512xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<512xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %z = "dm.kernel"(%v, %s) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "last"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// State is updated behind whatever reads the old value, although nothing else keeps the update from filling the wait.
// Views and buckets stand right before what first uses them.
// CHECK-LABEL: func.func @step
// CHECK: "dm.kernel"{{.*}}label = "reads the old value"
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: "dm.pack"
// CHECK-NEXT: "dm.start"
// CHECK: "dm.wait"
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: "dm.kernel"{{.*}}label = "reads it again"
// CHECK-NEXT: "dm.kernel"{{.*}}label = "update"
func.func private @work(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @both(%x: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func @step(%w: tensor<1024xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<1024xf32> {dm.name = "w"}, tensor<1024xf32> {dm.name = "z"}) {
  %y = "dm.kernel"(%w) {body = @work, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "reads the old value"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %f = tensor.expand_shape %y [[0, 1]] output_shape [2, 512] : tensor<1024xf32> into tensor<2x512xf32>
  %p = "dm.pack"(%f) {offsets = array<i64: 0>} : (tensor<2x512xf32>) -> tensor<1024xf32>
  %h, %t = "dm.start"(%p) ({
  ^bb0(%a: tensor<1024xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1024xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1024xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %e = tensor.expand_shape %s [[0, 1]] output_shape [2, 512] : tensor<1024xf32> into tensor<2x512xf32>
  %c = tensor.collapse_shape %e [[0, 1]] : tensor<2x512xf32> into tensor<1024xf32>
  %z = "dm.kernel"(%w, %c) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "reads it again"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %u = "dm.kernel"(%w) {body = @work, flops = 1000000 : i64, bytes = 8192 : i64, dm.label = "update"} : (tensor<1024xf32>) -> tensor<1024xf32>
  return %u, %z : tensor<1024xf32>, tensor<1024xf32>
}

// -----

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()

// As FSDP does it: what layer 2 needs is gathered while layer 1 runs, not before; layer 1's own at the begin.
// FSDP-LABEL: func.func @step
// FSDP: "dm.start"
// FSDP: dm.tensor = "h.0.w"
// FSDP: "dm.start"
// FSDP: dm.tensor = "h.1.w"
// FSDP: "dm.wait"
// FSDP-NEXT: "dm.kernel"{{.*}}label = "layer 0"
// FSDP-NEXT: "dm.start"
// FSDP: dm.tensor = "h.2.w"
// FSDP: "dm.wait"
// FSDP-NEXT: "dm.kernel"{{.*}}label = "layer 1"
// FSDP-NEXT: "dm.wait"
// FSDP-NEXT: "dm.kernel"{{.*}}label = "layer 2"
func.func private @both(%x: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "frozen"}, %w: tensor<512xf32> {dm.name = "w", dm.role = "frozen"}) -> (tensor<1024xf32> {dm.name = "z"}) {
  %h0, %t0 = "dm.start"(%w) ({
  ^bb0(%a: tensor<512xf32>):
    %r = "dm.all_gather"(%a) {dm.tensor = "h.0.w", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<512xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<512xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s0 = "dm.wait"(%h0) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %y0 = "dm.kernel"(%x, %s0) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "layer 0"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %h1, %t1 = "dm.start"(%w) ({
  ^bb0(%a: tensor<512xf32>):
    %r = "dm.all_gather"(%a) {dm.tensor = "h.1.w", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<512xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<512xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s1 = "dm.wait"(%h1) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %y1 = "dm.kernel"(%y0, %s1) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "layer 1"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %h2, %t2 = "dm.start"(%w) ({
  ^bb0(%a: tensor<512xf32>):
    %r = "dm.all_gather"(%a) {dm.tensor = "h.2.w", dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<512xf32>) -> tensor<1024xf32>
    "dm.yield"(%r) : (tensor<1024xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<512xf32>) -> (!dm.handle<tensor<1024xf32>>, !dm.token)
  %s2 = "dm.wait"(%h2) : (!dm.handle<tensor<1024xf32>>) -> tensor<1024xf32>
  %y2 = "dm.kernel"(%y1, %s2) {body = @both, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "layer 2"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %y2 : tensor<1024xf32>
}
