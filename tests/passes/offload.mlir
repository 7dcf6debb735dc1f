// RUN: dmc-opt %s -p "dm-offload{machine=h200x2}" --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-offload{machine=h200x2},dm-hoist-start,dm-sink-wait" --split-input-file | %FileCheck %s --check-prefix=MOVED
// RUN: dmc-opt %s -p "dm-offload{machine=h200x2},dm-schedule{machine=h200x2}" --split-input-file | %FileCheck %s --check-prefix=ORDER
// RUN: dmc-opt %s -p "dm-offload{machine=h200x2 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// Two layers, of which the first is offloaded: what the backward pass reads of it, directly and through a view, leaves
// right behind its last reader of the forward pass, and is back just before it is read. Meanwhile kernels run. What the module keeps stays.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<1024xf32>
// CHECK: %[[A:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}label = "h.0"
// CHECK-NEXT: %[[K:[^ ]+]] = "dm.kernel"(%[[A]]) {{.*}}label = "h.0.keep"
// CHECK-NEXT: %[[B:[^ ]+]] = "dm.kernel"(%[[A]]) {{.*}}label = "rest"
// CHECK-NEXT: %[[H:[^ :]+]]:2 = "dm.start"(%[[A]])
// CHECK: "dm.copy"({{.*}}source = #dm.space<"device">, target = #dm.space<"pinned_host">
// CHECK: instance = 0 : i64, {{.*}}queue = #dm.queue<"copy_out">
// CHECK-NEXT: %[[C:[^ ]+]] = "dm.kernel"(%[[B]]) {{.*}}label = "loss"
// CHECK-NEXT: %[[SENT:[^ ]+]] = "dm.wait"(%[[H]]#0)
// CHECK-NEXT: %[[DC:[^ ]+]] = "dm.kernel"(%[[C]]) {{.*}}label = "loss, backward"
// CHECK-NEXT: %[[R:[^ :]+]]:2 = "dm.start"(%[[SENT]])
// CHECK: "dm.copy"({{.*}}source = #dm.space<"pinned_host">, target = #dm.space<"device">
// CHECK: instance = 1 : i64, {{.*}}queue = #dm.queue<"copy_in">
// CHECK-NEXT: %[[DB:[^ ]+]] = "dm.kernel"(%[[DC]]) {{.*}}label = "rest, backward"
// CHECK-NEXT: %[[BACK:[^ ]+]] = "dm.wait"(%[[R]]#0)
// CHECK-NEXT: %[[VIEW:[^ ]+]] = tensor.expand_shape %[[BACK]]
// CHECK-NEXT: "dm.kernel"(%[[DB]], %[[BACK]], %[[VIEW]], %[[K]])

// It neither leaves later nor returns earlier where movements are only made to overlap: it would not have left.
// MOVED-LABEL: func.func @step
// MOVED: label = "loss"
// MOVED-NEXT: dm.wait
// MOVED-NEXT: label = "loss, backward"
// MOVED-NEXT: dm.start
// MOVED: queue = #dm.queue<"copy_in">
// MOVED-NEXT: label = "rest, backward"
// MOVED-NEXT: dm.wait

// It leaves and returns beside kernels.
// ORDER-LABEL: func.func @step
// ORDER: queue = #dm.queue<"copy_out">
// ORDER: label = "loss"
// ORDER-NEXT: dm.wait
// ORDER: queue = #dm.queue<"copy_in">
// ORDER: label = "rest, backward"
// ORDER-NEXT: dm.wait

// TABLE: results of {{ *}}values {{ *}}bytes {{ *}}µs not touched {{ *}}µs of copies {{ *}}decision
// TABLE-DAG: h.* {{ *}}1 {{ *}}4,096 {{.*}}offloaded: requested
// TABLE-DAG: h.*.keep {{ *}}1 {{ *}}4,096 {{.*}}kept{{$}}
// TABLE: 4,096 bytes leave, {{.*}} µs of copies
module attributes {dm.keeping = ["offload h.*", "keep h.*.keep"]} {
func.func private @one(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @all(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %v: tensor<32x32xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  return %x : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "parameter"})
    -> (tensor<1024xf32> {dm.name = "x"}) {
  %a = "dm.kernel"(%x) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [32, 32] : tensor<1024xf32> into tensor<32x32xf32>
  %k = "dm.kernel"(%a) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0.keep"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "dm.kernel"(%a) {body = @one, flops = 1000000000000 : i64, bytes = 8192 : i64, dm.label = "rest"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %c = "dm.kernel"(%b) {body = @one, flops = 1000000000000 : i64, bytes = 8192 : i64, dm.label = "loss"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %dc = "dm.kernel"(%c) {body = @one, flops = 1000000000000 : i64, bytes = 8192 : i64, dm.label = "loss, backward"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %db = "dm.kernel"(%dc) {body = @one, flops = 1000000000000 : i64, bytes = 8192 : i64, dm.label = "rest, backward"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %dx = "dm.kernel"(%db, %a, %v, %k) {body = @all, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0, backward"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<32x32xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %dx : tensor<1024xf32>
}
}

// -----

// A bucket's member, and new state, stay where they are.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dm.start
// CHECK: return
module attributes {dm.keeping = ["offload *"]} {
func.func private @one(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @three(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  return %x : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "parameter"}, %z: tensor<1024xf32> {dm.name = "z", dm.role = "buffer"})
    -> (tensor<1024xf32> {dm.name = "x"}, tensor<1024xf32> {dm.name = "z"}) {
  %a = "dm.kernel"(%x) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %m = "dm.kernel"(%x) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.1"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %bucket = "dm.pack"(%a) {offsets = array<i64: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "dm.kernel"(%m) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.2, backward"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %dx = "dm.kernel"(%b, %bucket, %m) {body = @three, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0, backward"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %dx, %m : tensor<1024xf32>, tensor<1024xf32>
}
}
