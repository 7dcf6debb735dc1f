// RUN: dmc-opt %s -p "dm-keep{machine=h200x2}" --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p "dm-keep{machine=h200x2 memory_cap=13000}" --split-input-file | %FileCheck %s --check-prefix=CAP
// RUN: dmc-opt %s -p "dm-keep{machine=h200x2 memory_cap=13000 reasons}" --split-input-file 2>&1 >%t | %FileCheck %s --check-prefix=TABLE

// Two layers and their loss; the backward pass reads the results of both, through a view and directly. Without a cap
// all is kept. Under the cap the result of the first layer, which takes the least time for its bytes, is computed again
// right before it is read; what is a view of it, too. The loss and its gradient are as they were.
// CHECK-LABEL: func.func @step
// CHECK-NOT: recomputed
// CHECK: return
// CAP-LABEL: func.func @step
// CAP-SAME: (%[[X:[^:]+]]: tensor<1024xf32>
// CAP: %[[A:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}label = "h.0"
// CAP-NEXT: %[[B:[^ ]+]] = "dm.kernel"(%[[A]]) {{.*}}label = "h.1"
// CAP-NEXT: %[[LOSS:[^ ]+]] = "dm.kernel"(%[[B]]) {{.*}}label = "loss"
// CAP-NEXT: %[[DB:[^ ]+]] = "dm.kernel"(%[[B]]) {{.*}}label = "loss, backward"
// CAP-NEXT: %[[DA:[^ ]+]] = "dm.kernel"(%[[DB]], %[[B]]) {{.*}}label = "h.1, backward"
// CAP-NEXT: %[[AGAIN:[^ ]+]] = "dm.kernel"(%[[X]]) {{.*}}label = "h.0, recomputed"
// CAP-NEXT: %[[VIEW:[^ ]+]] = tensor.expand_shape %[[AGAIN]]
// CAP-NEXT: %[[DX:[^ ]+]] = "dm.kernel"(%[[DA]], %[[AGAIN]], %[[VIEW]]) {{.*}}label = "h.0, backward"
// CAP-NEXT: return %[[DX]], %[[LOSS]]
// TABLE: results of {{ *}}kernels {{ *}}bytes {{ *}}µs to compute again {{ *}}decision
// TABLE-NEXT: h.* {{ *}}1 {{ *}}4,096 {{ *}}0.5 {{ *}}computed again: memory cap
// TABLE-NEXT: h.* {{ *}}1 {{ *}}4,096 {{.*}}kept{{$}}
// TABLE: peak {{[0-9,]+}} → {{[0-9,]+}} bytes; 1 kernels run again, {{.*}} µs
func.func private @one(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @two(%x: tensor<1024xf32>, %z: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @three(%x: tensor<1024xf32>, %z: tensor<1024xf32>, %v: tensor<32x32xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %z : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @sum(%x: tensor<1024xf32>) -> tensor<1xf32> attributes {dm.kind = "other"} {
  %y = arith.constant dense<0.0> : tensor<1xf32>
  return %y : tensor<1xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "parameter"})
    -> (tensor<1024xf32> {dm.name = "x"}, tensor<1xf32> {dm.name = "loss"}) {
  %a = "dm.kernel"(%x) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [32, 32] : tensor<1024xf32> into tensor<32x32xf32>
  %b = "dm.kernel"(%a) {body = @one, flops = 1000000000000 : i64, bytes = 8192 : i64, dm.label = "h.1"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %loss = "dm.kernel"(%b) {body = @sum, flops = 0 : i64, bytes = 8192 : i64, dm.label = "loss"} : (tensor<1024xf32>) -> tensor<1xf32>
  %db = "dm.kernel"(%b) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "loss, backward"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %da = "dm.kernel"(%db, %b) {body = @two, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.1, backward"} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %dx = "dm.kernel"(%da, %a, %v) {body = @three, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0, backward"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<32x32xf32>) -> tensor<1024xf32>
  return %dx, %loss : tensor<1024xf32>, tensor<1xf32>
}

// -----

// By the user's word: of the module h.0 the inside is computed again. Its output is kept, and so is the module inside that
// is to be kept.
// CHECK: dm.keeping
// CHECK-LABEL: func.func @step
// CHECK: label = "loss"
// CHECK-NOT: recomputed
// CHECK: label = "h.0.mlp, recomputed"
// CHECK-NOT: recomputed
// CHECK: return
module attributes {dm.keeping = ["recompute h.*", "keep h.*.attn"]} {
func.func private @one(%x: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @all(%x: tensor<1024xf32>, %a: tensor<1024xf32>, %b: tensor<1024xf32>, %c: tensor<1024xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  return %x : tensor<1024xf32>
}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "parameter"})
    -> (tensor<1024xf32> {dm.name = "x"}, tensor<1024xf32> {dm.name = "loss"}) {
  %a = "dm.kernel"(%x) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0.attn"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b = "dm.kernel"(%a) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0.mlp"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %c = "dm.kernel"(%b) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0.out"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %loss = "dm.kernel"(%c) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "loss"} : (tensor<1024xf32>) -> tensor<1024xf32>
  %dx = "dm.kernel"(%x, %a, %b, %c) {body = @all, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0, backward"} : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %dx, %loss : tensor<1024xf32>, tensor<1024xf32>
}
}
