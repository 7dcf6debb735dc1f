// RUN: dmc-opt --allow-undefined-symbols %s -p canonicalize,cse --split-input-file | %FileCheck %s
// RUN: dmc-opt --allow-undefined-symbols %s -p loop-invariant-code-motion --split-input-file | %FileCheck %s --check-prefix=LICM

// Unused collectives, copies, kernels and composites go; messages and starts stay.
// CHECK-LABEL: func.func @unused
// CHECK-NOT: dm.all_reduce
// CHECK-NOT: dm.copy
// CHECK-NOT: dm.kernel
// CHECK-NOT: dm.composite
// CHECK: "dm.send"
// CHECK: "dm.recv"
// CHECK: "dm.start"
// CHECK: return
func.func @unused(%x: tensor<8xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %b = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
  %c = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
  %d = "dm.kernel"(%x) {body = @gelu_0} : (tensor<8xf32>) -> tensor<8xf32>
  "dm.send"(%x) {target = 1 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : (tensor<8xf32>) -> ()
  %e = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  %h, %t = "dm.start"(%x) ({
  ^bb0(%i: tensor<8xf32>):
    %r = "dm.broadcast"(%i) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

// Equal collectives are one; of two equal receives each brings its own message.
// CHECK-LABEL: func.func @equal
// CHECK: %[[A:[^ ]+]] = "dm.all_reduce"
// CHECK-NOT: dm.all_reduce
// CHECK: %[[R:[^ ]+]] = "dm.recv"
// CHECK: %[[S:[^ ]+]] = "dm.recv"
// CHECK: return %[[A]], %[[A]], %[[R]], %[[S]]
func.func @equal(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %b = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  %r = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  %s = "dm.recv"() {source = 0 : i64, instance = 7 : i64, group = #dm.group<@mesh, ["pp"]>} : () -> tensor<8xf32>
  return %a, %b, %r, %s : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A loop may run no time on some rank: what is local may be hoisted, a collective may not.
// LICM-LABEL: func.func @loop
// LICM: "dm.composite"
// LICM: "dm.all_slice"
// LICM: scf.for
// LICM: "dm.all_gather"
// LICM: "dm.all_reduce"
func.func @loop(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %zero to %n step %one iter_args(%carried = %x) -> tensor<8xf32> {
    %c = "dm.composite"(%x) {kind = "gelu", decomposition = @gelu_0, parameters = {}} : (tensor<8xf32>) -> tensor<8xf32>
    %p = "dm.all_slice"(%x) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<4xf32>
    %g = "dm.all_gather"(%p) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<4xf32>) -> tensor<8xf32>
    %a = "dm.all_reduce"(%g) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    %s = arith.addf %c, %a : tensor<8xf32>
    scf.yield %s : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}
