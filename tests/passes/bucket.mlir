// RUN: dmc-opt %s -p dm-bucket{bytes=128} --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-bucket{bytes=128 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// Gradients are packed without a copy where the last of them is ready, and unpacked where the first is read. Members
// begin at multiples of 256 bytes; the label is that of all. The third would be too much; kernels stay.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>, %[[Z:[^:]+]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[A:[^ ]+]] = "dm.kernel"(%[[X]]) {body = @f
// CHECK-NEXT: %[[B:[^ ]+]] = "dm.kernel"(%[[Z]]) {body = @g
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.pack"(%[[A]], %[[B]]) {offsets = array<i64: 0, 64>} : (tensor<8xf32>, tensor<4x4xf32>) -> tensor<128xf32>
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[P]]) ({
// CHECK-NEXT: ^bb0(%[[O:[^:]+]]: tensor<128xf32>):
// CHECK-NEXT: "dm.all_reduce"(%[[O]]) {accumulate = f32, dm.tensor = "gradient of a; gradient of b", {{.*}}reduction = #dm.reduction<"sum">} : (tensor<128xf32>) -> tensor<128xf32>
// CHECK: instance = 0 : i64
// CHECK-NEXT: %[[C:[^ ]+]] = "dm.kernel"(%[[B]]) {body = @g
// CHECK-NEXT: %[[T:[^:]+]]:2 = "dm.start"(%[[C]]) ({
// CHECK: dm.tensor = "gradient of c"
// CHECK: %[[W:[^ ]+]] = "dm.wait"(%[[S]]#0) : (!dm.handle<tensor<128xf32>>) -> tensor<128xf32>
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.unpack"(%[[W]]) {offsets = array<i64: 0, 64>}
// CHECK-NEXT: %[[D:[^ ]+]] = "dm.kernel"(%[[U]]#0) {body = @f
// CHECK-NEXT: %[[V:[^ ]+]] = "dm.wait"(%[[T]]#0)
// CHECK-NEXT: return %[[D]], %[[U]]#1, %[[V]]
// TABLE: movement group members bytes started later by ops closed by
// TABLE-NEXT: dm.all_reduce (gradient of a) dp 2 96 1 128 bytes
// TABLE-NEXT: dm.all_reduce (gradient of c) dp 1 64 0 nothing follows
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func private @g(%a0: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<4x4xf32>) -> (tensor<8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h0, %t0 = "dm.start"(%a) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %b = "dm.kernel"(%z) {body = @g, bytes = 64 : i64, flops = 0 : i64, dm.label = "g"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %h1, %t1 = "dm.start"(%b) ({
  ^bb0(%o: tensor<4x4xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "dm.yield"(%r) : (tensor<4x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4x4xf32>) -> (!dm.handle<tensor<4x4xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<4x4xf32>>) -> tensor<4x4xf32>
  %c = "dm.kernel"(%b) {body = @g, bytes = 64 : i64, flops = 0 : i64, dm.label = "g"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %h2, %t2 = "dm.start"(%c) ({
  ^bb0(%o: tensor<4x4xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of c", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "dm.yield"(%r) : (tensor<4x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4x4xf32>) -> (!dm.handle<tensor<4x4xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<4x4xf32>>) -> tensor<4x4xf32>
  %d = "dm.kernel"(%y0) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  return %d, %y1, %y2 : tensor<8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Near misses: another reduction, another group, another type, what a token orders; the last takes what the first
// gives; one that is read before the next is ready.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dm.pack
// CHECK: return
// TABLE: closed by
// TABLE-NEXT: dm.all_reduce (a) dp 1 32 0 start of dm.all_reduce (f), before dm.all_reduce (f) is ready
// TABLE-NEXT: dm.all_reduce (b) dp 1 32 0 nothing follows
// TABLE-NEXT: dm.all_reduce (c) tp 1 32 0 nothing follows
// TABLE-NEXT: dm.all_reduce (d) dp 1 16 0 nothing follows
// TABLE-NEXT: dm.all_reduce (f) dp 1 32 0 @f (f), before dm.all_reduce (g) is ready
// TABLE-NEXT: dm.all_reduce (g) dp 1 32 0 nothing follows
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %n: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "b", reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "c", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h3, %t3 = "dm.start"(%n) ({
  ^bb0(%o: tensor<8xbf16>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "d", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xbf16>) -> tensor<8xbf16>
    "dm.yield"(%r) : (tensor<8xbf16>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xbf16>) -> (!dm.handle<tensor<8xbf16>>, !dm.token)
  %y3 = "dm.wait"(%h3) : (!dm.handle<tensor<8xbf16>>) -> tensor<8xbf16>
  %h5, %t5 = "dm.start"(%y0) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "f", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 5 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y5 = "dm.wait"(%h5) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %g = "dm.kernel"(%y5) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h6, %t6 = "dm.start"(%g) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "g", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 6 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y6 = "dm.wait"(%h6) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h8, %t8 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.copy"(%o) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 8 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y8 = "dm.wait"(%h8) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h7, %t7 = "dm.start"(%x, %t8) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "h", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 7 : i64, operandSegmentSizes = array<i32: 1, 1>} : (tensor<8xf32>, !dm.token) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y7 = "dm.wait"(%h7) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %y1, %y2, %y7, %y3, %y6, %y8 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>
}

// -----

// The pieces of a rank lie together: a kernel copies gradients into a row for each rank; what a rank gets is a row.
// CHECK-LABEL: func.func private @pack_2_rows_1
// CHECK-SAME: (%[[A:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<4x4xf32>) -> tensor<256xf32> attributes {dm.kind = "other"}
// CHECK: %[[E:[^ ]+]] = linalg.fill {{.*}} -> tensor<2x128xf32>
// CHECK-NEXT: %[[C:[^ ]+]] = tensor.expand_shape %[[A]] {{.*}} into tensor<2x4xf32>
// CHECK-NEXT: %[[I:[^ ]+]] = tensor.insert_slice %[[C]] into %[[E]][0, 0] [2, 4]
// CHECK-NEXT: %[[F:[^ ]+]] = tensor.collapse_shape %[[B]] {{.*}} into tensor<16xf32>
// CHECK-NEXT: %[[D:[^ ]+]] = tensor.expand_shape %[[F]] {{.*}} into tensor<2x8xf32>
// CHECK-NEXT: %[[J:[^ ]+]] = tensor.insert_slice %[[D]] into %[[I]][0, 64] [2, 8]
// CHECK-NEXT: tensor.collapse_shape %[[J]] {{.*}} into tensor<256xf32>
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>, %[[Z:[^:]+]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.kernel"(%[[X]], %[[Z]]) {body = @pack_2_rows_1, bytes = 1120 : i64, dm.label = "a; b", flops = 0 : i64}
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[P]]) ({
// CHECK: "dm.reduce_scatter"{{.*}} : (tensor<256xf32>) -> tensor<128xf32>
// CHECK: %[[W:[^ ]+]] = "dm.wait"(%[[S]]#0)
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.unpack"(%[[W]]) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<4xf32>, tensor<2x4xf32>)
// CHECK-NEXT: return %[[U]]#0, %[[U]]#1
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @pack_2_rows_0(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.reduce_scatter"(%o) {dm.tensor = "a", dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
    "dm.yield"(%r) : (tensor<4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<4xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<4xf32>>) -> tensor<4xf32>
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<4x4xf32>):
    %r = "dm.reduce_scatter"(%o) {dm.tensor = "b", dim = 0 : i64, reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    "dm.yield"(%r) : (tensor<2x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4x4xf32>) -> (!dm.handle<tensor<2x4xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<2x4xf32>>) -> tensor<2x4xf32>
  return %y0, %y1 : tensor<4xf32>, tensor<2x4xf32>
}

// -----

// What is gathered is packed without a copy, and copied out of the rows of the ranks. It starts no earlier than the
// first of them did, and groups may be of several axes. Near misses: pieces along another dimension.
// CHECK-LABEL: func.func private @unpack_4_rows_0
// CHECK-SAME: (%[[A:[^:]+]]: tensor<512xf32>) -> (tensor<8xf32>, tensor<4x4xf32>)
// CHECK-NEXT: %[[R:[^ ]+]] = tensor.expand_shape %[[A]] {{.*}} into tensor<4x128xf32>
// CHECK-NEXT: %[[B:[^ ]+]] = tensor.extract_slice %[[R]][0, 0] [4, 2]
// CHECK-NEXT: tensor.collapse_shape %[[B]] {{.*}} into tensor<8xf32>
// CHECK-NEXT: %[[C:[^ ]+]] = tensor.extract_slice %[[R]][0, 64] [4, 4]
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<2xf32>, %[[Z:[^:]+]]: tensor<1x4xf32>)
// CHECK-NEXT: %[[V:[^ ]+]] = "dm.kernel"(%[[X]]) {body = @f
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.pack"(%[[X]], %[[Z]]) {offsets = array<i64: 0, 64>} : (tensor<2xf32>, tensor<1x4xf32>) -> tensor<128xf32>
// CHECK-NEXT: %[[S:[^:]+]]:2 = "dm.start"(%[[P]]) ({
// CHECK: "dm.all_gather"{{.*}} : (tensor<128xf32>) -> tensor<512xf32>
// CHECK: "dm.start"(%[[Z]])
// CHECK: "dm.start"(%[[Z]])
// CHECK: %[[W:[^ ]+]] = "dm.wait"(%[[S]]#0)
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.kernel"(%[[W]]) {body = @unpack_4_rows_0, bytes = 2144 : i64, flops = 0 : i64}
// CHECK: return %[[V]], %[[U]]#0, %[[U]]#1
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<2xf32>) -> tensor<2xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<2xf32>
  return %e : tensor<2xf32>
}
func.func @step(%x: tensor<2xf32>, %z: tensor<1x4xf32>) -> (tensor<2xf32>, tensor<8xf32>, tensor<4x4xf32>, tensor<1x16xf32>, tensor<1x16xf32>) {
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<2xf32>) -> tensor<2xf32>
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<2xf32>):
    %r = "dm.all_gather"(%o) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<2xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<2xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<1x4xf32>):
    %r = "dm.all_gather"(%o) {dim = 0 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<1x4xf32>) -> tensor<4x4xf32>
    "dm.yield"(%r) : (tensor<4x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x4xf32>) -> (!dm.handle<tensor<4x4xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<4x4xf32>>) -> tensor<4x4xf32>
  %h2, %t2 = "dm.start"(%z) ({
  ^bb0(%o: tensor<1x4xf32>):
    %r = "dm.all_gather"(%o) {dim = 1 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<1x4xf32>) -> tensor<1x16xf32>
    "dm.yield"(%r) : (tensor<1x16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x4xf32>) -> (!dm.handle<tensor<1x16xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<1x16xf32>>) -> tensor<1x16xf32>
  %h3, %t3 = "dm.start"(%z) ({
  ^bb0(%o: tensor<1x4xf32>):
    %r = "dm.all_gather"(%o) {dim = 1 : i64, group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<1x4xf32>) -> tensor<1x16xf32>
    "dm.yield"(%r) : (tensor<1x16xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 3 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1x4xf32>) -> (!dm.handle<tensor<1x16xf32>>, !dm.token)
  %y3 = "dm.wait"(%h3) : (!dm.handle<tensor<1x16xf32>>) -> tensor<1x16xf32>
  return %f, %y0, %y1, %y2, %y3 : tensor<2xf32>, tensor<8xf32>, tensor<4x4xf32>, tensor<1x16xf32>, tensor<1x16xf32>
}

// -----

// Views stand in nobody's way: before the pack those that make operands, behind the unpack those that read.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT: %[[E:[^ ]+]] = tensor.expand_shape %[[X]]
// CHECK-NEXT: %[[P:[^ ]+]] = "dm.pack"(%[[X]], %[[E]])
// CHECK: "dm.broadcast"{{.*}} : (tensor<128xf32>) -> tensor<128xf32>
// CHECK: %[[F:[^ ]+]] = "dm.kernel"(%[[X]])
// CHECK-NEXT: %[[W:[^ ]+]] = "dm.wait"
// CHECK-NEXT: %[[U:[^:]+]]:2 = "dm.unpack"(%[[W]])
// CHECK-NEXT: %[[V:[^ ]+]] = tensor.expand_shape %[[U]]#0
// CHECK-NEXT: return %[[V]], %[[U]]#1, %[[F]]
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.broadcast"(%o) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %v = tensor.expand_shape %y0 [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %f = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %e = tensor.expand_shape %x [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %h1, %t1 = "dm.start"(%e) ({
  ^bb0(%o: tensor<2x4xf32>):
    %r = "dm.broadcast"(%o) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    "dm.yield"(%r) : (tensor<2x4xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<2x4xf32>) -> (!dm.handle<tensor<2x4xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<2x4xf32>>) -> tensor<2x4xf32>
  return %v, %y1, %f : tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>
}

// -----

// What is gathered in time is gathered alone: the second micro-batch does not hold its weight while the first runs.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: dm.all_gather{{.*}} (tensor<4xf32>) -> tensor<8xf32>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%w: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%w) ({
  ^bb0(%o: tensor<4xf32>):
    %r = "dm.all_gather"(%o) {dim = 0 : i64, dm.in_time = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %a = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%w) ({
  ^bb0(%o: tensor<4xf32>):
    %r = "dm.all_gather"(%o) {dim = 0 : i64, dm.in_time = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %b = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
