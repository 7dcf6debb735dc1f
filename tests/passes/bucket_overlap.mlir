// RUN: dmc-opt %s -p "dm-bucket{preserve-overlap machine=h200x4 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s
// RUN: dmc-opt %s -p "dm-bucket{reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=FILL

// A gradient waits for the next, though a long kernel lies between: nobody reads either before the bucket is there.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 2 16777248 1 nothing follows
// CHECK-NOT: dm.all_reduce
// FILL: closed by
// FILL-NEXT: dm.all_reduce (gradient of a) dp 2 16777248
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func private @g(%a0: tensor<4194304xf32>) -> tensor<4194304xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<4194304xf32>
  return %e : tensor<4194304xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<4194304xf32>) -> (tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%z) ({
  ^bb0(%o: tensor<4194304xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4194304xf32>) -> tensor<4194304xf32>
    "dm.yield"(%r) : (tensor<4194304xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4194304xf32>) -> (!dm.handle<tensor<4194304xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<4194304xf32>>) -> tensor<4194304xf32>
  %b = "dm.kernel"(%x) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%b) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %c = "dm.kernel"(%b) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  return %c, %y0, %y1 : tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>
}

// -----

// Near miss: the long one would only start when the short one is ready, and is read at once.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 1 16777216 0 dm.all_reduce (gradient of b), which would delay it by {{[0-9.]+}} µs
// CHECK-NEXT: dm.all_reduce (gradient of b) dp 1 32 0 nothing follows
// FILL: closed by
// FILL-NEXT: dm.all_reduce (gradient of a) dp 2 16777248
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func private @g(%a0: tensor<4194304xf32>) -> tensor<4194304xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<4194304xf32>
  return %e : tensor<4194304xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<4194304xf32>) -> (tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%z) ({
  ^bb0(%o: tensor<4194304xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4194304xf32>) -> tensor<4194304xf32>
    "dm.yield"(%r) : (tensor<4194304xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4194304xf32>) -> (!dm.handle<tensor<4194304xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<4194304xf32>>) -> tensor<4194304xf32>
  %b = "dm.kernel"(%x) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%b) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %c = "dm.kernel"(%y0) {body = @g, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "g"} : (tensor<4194304xf32>) -> tensor<4194304xf32>
  return %b, %c, %y1 : tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>
}

// -----

// Near miss: nobody reads the long one soon, but the maximum behind it on the same lane is wanted at once.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 1 16777216 0 dm.all_reduce (gradient of b), which would delay it by {{[0-9.]+}} µs
// CHECK-NEXT: dm.all_reduce (gradient of b) dp 1 32
// CHECK-NEXT: dm.all_reduce (maximum) dp 1 32
// FILL: closed by
// FILL-NEXT: dm.all_reduce (gradient of a) dp 2 16777248
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func private @g(%a0: tensor<4194304xf32>) -> tensor<4194304xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<4194304xf32>
  return %e : tensor<4194304xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<4194304xf32>) -> (tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%z) ({
  ^bb0(%o: tensor<4194304xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<4194304xf32>) -> tensor<4194304xf32>
    "dm.yield"(%r) : (tensor<4194304xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<4194304xf32>) -> (!dm.handle<tensor<4194304xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<4194304xf32>>) -> tensor<4194304xf32>
  %b = "dm.kernel"(%x) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%b) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h2, %t2 = "dm.start"(%b) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "maximum", reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %c = "dm.kernel"(%y2) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  return %c, %y0, %y1 : tensor<8xf32>, tensor<4194304xf32>, tensor<8xf32>
}

// -----

// Where all is there from the start, one latency is saved.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (a) dp 2 64
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %c = "dm.kernel"(%y0) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  return %c, %y1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Near miss: a kernel would have to copy large gradients into the bucket, and each alone is there in time.
// CHECK: closed by
// CHECK-NEXT: dm.reduce_scatter (gradient of a) dp 1 4194304 0 a copy of 4,194,304 bytes, which is not needed to be in time
// CHECK-NEXT: dm.reduce_scatter (gradient of b) dp 1 4194304 0 nothing follows
// FILL: dm.reduce_scatter (gradient of a) dp 2 8388608
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %y: tensor<1048576xf32>, %z: tensor<1048576xf32>) -> (tensor<8xf32>, tensor<524288xf32>, tensor<524288xf32>) {
  %h0, %t0 = "dm.start"(%y) ({
  ^bb0(%o: tensor<1048576xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1048576xf32>) -> tensor<524288xf32>
    "dm.yield"(%r) : (tensor<524288xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1048576xf32>) -> (!dm.handle<tensor<524288xf32>>, !dm.token)
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<1048576xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1048576xf32>) -> tensor<524288xf32>
    "dm.yield"(%r) : (tensor<524288xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1048576xf32>) -> (!dm.handle<tensor<524288xf32>>, !dm.token)
  %b = "dm.kernel"(%x) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<524288xf32>>) -> tensor<524288xf32>
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<524288xf32>>) -> tensor<524288xf32>
  return %b, %y0, %y1 : tensor<8xf32>, tensor<524288xf32>, tensor<524288xf32>
}

// -----

// So it is where what follows is read earlier: a schedule lets that go first.
// CHECK: closed by
// CHECK-NEXT: dm.reduce_scatter (gradient of a) dp 1 4194304 0 a copy of 4,194,304 bytes, which is not needed to be in time
// CHECK-NEXT: dm.reduce_scatter (gradient of b) dp 1 4194304 0 nothing follows
// CHECK-NEXT: dm.all_reduce (maximum) dp 1 32
// FILL: dm.reduce_scatter (gradient of a) dp 2 8388608
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %y: tensor<1048576xf32>, %z: tensor<1048576xf32>) -> (tensor<8xf32>, tensor<524288xf32>, tensor<524288xf32>) {
  %h0, %t0 = "dm.start"(%y) ({
  ^bb0(%o: tensor<1048576xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1048576xf32>) -> tensor<524288xf32>
    "dm.yield"(%r) : (tensor<524288xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1048576xf32>) -> (!dm.handle<tensor<524288xf32>>, !dm.token)
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<1048576xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<1048576xf32>) -> tensor<524288xf32>
    "dm.yield"(%r) : (tensor<524288xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<1048576xf32>) -> (!dm.handle<tensor<524288xf32>>, !dm.token)
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%o: tensor<8xf32>):
    %r = "dm.all_reduce"(%o) {dm.tensor = "maximum", reduction = #dm.reduction<"max">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %b = "dm.kernel"(%y2) {body = @f, bytes = 1073741824 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<524288xf32>>) -> tensor<524288xf32>
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<524288xf32>>) -> tensor<524288xf32>
  return %b, %y0, %y1 : tensor<8xf32>, tensor<524288xf32>, tensor<524288xf32>
}

// -----

// Where one alone would be late, they share a bucket, in spite of the copy.
// CHECK: closed by
// CHECK-NEXT: dm.reduce_scatter (gradient of a) dp 2 4194304 0 nothing follows
// FILL: dm.reduce_scatter (gradient of a) dp 2 4194304
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
func.func private @f(%a0: tensor<8xf32>) -> tensor<8xf32> attributes {dm.kind = "other"} {
  %e = tensor.empty() : tensor<8xf32>
  return %e : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>, %y: tensor<524288xf32>, %z: tensor<524288xf32>) -> (tensor<8xf32>, tensor<262144xf32>, tensor<262144xf32>) {
  %h0, %t0 = "dm.start"(%y) ({
  ^bb0(%o: tensor<524288xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of a", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<524288xf32>) -> tensor<262144xf32>
    "dm.yield"(%r) : (tensor<262144xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<524288xf32>) -> (!dm.handle<tensor<262144xf32>>, !dm.token)
  %h1, %t1 = "dm.start"(%z) ({
  ^bb0(%o: tensor<524288xf32>):
    %r = "dm.reduce_scatter"(%o) {dim = 0 : i64, dm.tensor = "gradient of b", reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<524288xf32>) -> tensor<262144xf32>
    "dm.yield"(%r) : (tensor<262144xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<524288xf32>) -> (!dm.handle<tensor<262144xf32>>, !dm.token)
  %b = "dm.kernel"(%x) {body = @f, bytes = 64 : i64, flops = 0 : i64, dm.label = "f"} : (tensor<8xf32>) -> tensor<8xf32>
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<262144xf32>>) -> tensor<262144xf32>
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<262144xf32>>) -> tensor<262144xf32>
  return %b, %y0, %y1 : tensor<8xf32>, tensor<262144xf32>, tensor<262144xf32>
}
