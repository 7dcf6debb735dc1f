// RUN: dmc-opt %s -p dm-bucket | %FileCheck %s

// Movements by the same pairs share a bucket, without a copy; by other pairs they do not.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:[^:]+]]: tensor<64xf32>, %[[Y:[^:]+]]: tensor<8x8xf32>)
// CHECK: %[[P:[^ ]+]] = "dm.pack"(%[[X]], %[[Y]])
// CHECK: "dm.start"(%[[P]])
// CHECK: "dm.permute"{{.*}} : (tensor<128xf32>) -> tensor<128xf32>
// CHECK: "dm.permute"{{.*}} : (tensor<64xf32>) -> tensor<64xf32>
// CHECK: %[[W:[^ ]+]] = "dm.wait"
// CHECK: %[[U:[^:]+]]:2 = "dm.unpack"(%[[W]])
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<64xf32>, %y: tensor<8x8xf32>) -> (tensor<64xf32>, tensor<8x8xf32>, tensor<64xf32>) {
  %h0, %t0 = "dm.start"(%x) ({
  ^bb0(%o: tensor<64xf32>):
    %r = "dm.permute"(%o) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<64xf32>) -> tensor<64xf32>
    "dm.yield"(%r) : (tensor<64xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<64xf32>) -> (!dm.handle<tensor<64xf32>>, !dm.token)
  %h1, %t1 = "dm.start"(%y) ({
  ^bb0(%o: tensor<8x8xf32>):
    %r = "dm.permute"(%o) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "dm.yield"(%r) : (tensor<8x8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8x8xf32>) -> (!dm.handle<tensor<8x8xf32>>, !dm.token)
  %y0 = "dm.wait"(%h0) : (!dm.handle<tensor<64xf32>>) -> tensor<64xf32>
  %y1 = "dm.wait"(%h1) : (!dm.handle<tensor<8x8xf32>>) -> tensor<8x8xf32>
  %h2, %t2 = "dm.start"(%x) ({
  ^bb0(%o: tensor<64xf32>):
    %r = "dm.permute"(%o) {source_target_pairs = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, group = #dm.group<@mesh, ["dp"]>} : (tensor<64xf32>) -> tensor<64xf32>
    "dm.yield"(%r) : (tensor<64xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 2 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<64xf32>) -> (!dm.handle<tensor<64xf32>>, !dm.token)
  %y2 = "dm.wait"(%h2) : (!dm.handle<tensor<64xf32>>) -> tensor<64xf32>
  return %y0, %y1, %y2 : tensor<64xf32>, tensor<8x8xf32>, tensor<64xf32>
}
