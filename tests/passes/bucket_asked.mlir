// RUN: dmc-opt %s -p "dm-bucket{preserve-overlap machine=h200x4 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s

// Buckets of the size that the plan asks for are filled, though this one comes later than its first member is read.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 2 16777248
module attributes {dm.verbs = [{verb = "bucket", bytes = 26214400 : i64}]} {
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
}

// -----

// What does not fit stays alone.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 1 16777216
// CHECK-NEXT: dm.all_reduce (gradient of b) dp 1 32
module attributes {dm.verbs = [{verb = "bucket", bytes = 16777216 : i64}]} {
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
}

// -----

// Where nothing overlaps, a bucket delays nothing.
// CHECK: closed by
// CHECK-NEXT: dm.all_reduce (gradient of a) dp 2 16777248
module attributes {dm.verbs = [{verb = "overlap", enabled = false}]} {
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
}
