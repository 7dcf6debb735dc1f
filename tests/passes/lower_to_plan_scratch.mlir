// RUN: dmc-opt %s -p dm-lower-to-plan | %FileCheck %s

// Kernels that use the same scratch memory one after another, the last of them behind everything but the copy of new state
// into its slot: the scratch of the first ends where that of the second begins.
// CHECK: "dm.buffer"() {category = "scratch", first = 0 : i64, label = "scratch of one", last = 1 : i64
// CHECK: "dm.buffer"() {category = "scratch", first = 1 : i64, label = "scratch of two", last = 1 : i64
// CHECK-COUNT-2: dm.launch
// CHECK-NEXT: "dm.move"() {label = "w"
func.func private @double(%x: tensor<16xf32>) -> tensor<16xf32> {
  return %x : tensor<16xf32>
}
func.func @step(%w: tensor<16xf32> {dm.name = "w", dm.role = "parameter", dm.offset = 0 : i64})
    -> (tensor<16xf32> {dm.name = "w"}) attributes {dm.arenas = {device = 1280 : i64}} {
  %a = "dm.kernel"(%w) {body = @double, flops = 16 : i64, bytes = 128 : i64, scratch = 32 : i64, dm.offsets = array<i64: 256>, dm.scratch_offset = 1024 : i64, dm.label = "one"} : (tensor<16xf32>) -> tensor<16xf32>
  %b = "dm.kernel"(%a) {body = @double, flops = 16 : i64, bytes = 128 : i64, scratch = 32 : i64, dm.offsets = array<i64: 512>, dm.scratch_offset = 1024 : i64, dm.label = "two"} : (tensor<16xf32>) -> tensor<16xf32>
  return %b : tensor<16xf32>
}
