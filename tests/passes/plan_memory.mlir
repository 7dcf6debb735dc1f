// RUN: dmc-opt %s -p dm-plan-memory --split-input-file | %FileCheck %s

// State lies first, by role, then what passes. A view and a wait lie in what they look at, host memory has an arena of
// its own, and a result takes the place of an operand that dies where the kernel works element by element.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "m", dm.offset = 256 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 0 : i64
// CHECK-SAME: dm.name = "x", dm.offset = 0 : i64
// CHECK-SAME: dm.arenas = {device = 1792 : i64, pinned_host = 512 : i64}
// CHECK: "dm.start"
// CHECK: }) {dm.offsets = array<i64: [[X:[0-9]+]], -1>
// CHECK: "dm.wait"{{.*}}dm.offsets = array<i64: [[X]]>
// CHECK: tensor.expand_shape{{.*}}dm.offsets = array<i64: [[X]]>
// CHECK: body = @double, dm.offsets = array<i64: [[X]]>
// CHECK: body = @sum, dm.offsets = array<i64: [[LOSS:[0-9]+]]>, dm.scratch_offset = {{[0-9]+}} : i64, scratch = 600 : i64
// CHECK: "dm.start"
// CHECK: }) {dm.offsets = array<i64: 256, -1>
func.func private @double(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = arith.addf %x, %x : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
func.func private @sum(%x: tensor<2x8xf32>, %w: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<f32> {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %c : tensor<f32>
}
func.func @step(%m: tensor<4xf32> {dm.name = "m", dm.role = "optimizer"},
                %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<16xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<f32> {dm.name = "loss"}) {
  %hx, %tx = "dm.start"(%x) ({
  ^bb0(%a: tensor<16xf32>):
    %c = "dm.copy"(%a) {source = #dm.space<"pinned_host">, target = #dm.space<"device">} : (tensor<16xf32>) -> tensor<16xf32>
    "dm.yield"(%c) : (tensor<16xf32>) -> ()
  }) {queue = #dm.queue<"copy_in">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16xf32>) -> (!dm.handle<tensor<16xf32>>, !dm.token)
  %there = "dm.wait"(%hx) : (!dm.handle<tensor<16xf32>>) -> tensor<16xf32>
  %rows = tensor.expand_shape %there [[0, 1]] output_shape [2, 8] : tensor<16xf32> into tensor<2x8xf32>
  %twice = "dm.kernel"(%rows) {body = @double} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %loss = "dm.kernel"(%twice, %w, %m) {body = @sum, scratch = 600 : i64} : (tensor<2x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %hl, %tl = "dm.start"(%loss) ({
  ^bb0(%a: tensor<f32>):
    %c = "dm.copy"(%a) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<f32>) -> tensor<f32>
    "dm.yield"(%c) : (tensor<f32>) -> ()
  }) {queue = #dm.queue<"copy_out">, instance = 1 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<f32>) -> (!dm.handle<tensor<f32>>, !dm.token)
  %out = "dm.wait"(%hl) : (!dm.handle<tensor<f32>>) -> tensor<f32>
  return %out : tensor<f32>
}

// -----

// A bucket: what it takes is made in it, the sum is in place, and the new values, which fill it, lie where the old ones
// did: state is laid out as the bucket.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "v", dm.offset = 256 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 0 : i64
// CHECK: body = @make, dm.offsets = array<i64: 0>
// CHECK: body = @make, dm.offsets = array<i64: 256>
// CHECK: "dm.pack"({{.*}}) {dm.offsets = array<i64: 0>, offsets
// CHECK: }) {dm.offsets = array<i64: 0, -1>
// CHECK: "dm.unpack"({{.*}}) {dm.offsets = array<i64: 0, 256>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @make() -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func @step(%v: tensor<64xf32> {dm.name = "v", dm.role = "parameter"}, %w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<64xf32> {dm.name = "v"}, tensor<64xf32> {dm.name = "w"}) {
  %a = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %b = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %flat = "dm.pack"(%a, %b) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %h, %t = "dm.start"(%flat) ({
  ^bb0(%x: tensor<128xf32>):
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<128xf32>) -> tensor<128xf32>
    "dm.yield"(%r) : (tensor<128xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<128xf32>) -> (!dm.handle<tensor<128xf32>>, !dm.token)
  %sum = "dm.wait"(%h) : (!dm.handle<tensor<128xf32>>) -> tensor<128xf32>
  %new_w, %new_v = "dm.unpack"(%sum) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %new_v, %new_w : tensor<64xf32>, tensor<64xf32>
}

// -----

// Near misses: state that is read after its new value is made, and a value in two buckets, which is copied into the
// second.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "w", dm.offset = 0 : i64
// CHECK: body = @double, dm.offsets = array<i64: [[NEW:[1-9][0-9]*]]>
// CHECK: body = @double, dm.offsets = array<i64: [[OTHER:[1-9][0-9]*]]>
// CHECK: "dm.pack"(%[[A:.+]], %[[B:.+]]) {dm.offsets
// CHECK: "dm.pack"(%[[B]], %[[A]]) {dm.copied = array<i64: 0, 1>
func.func private @double(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = arith.addf %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func private @add(%x: tensor<128xf32>, %y: tensor<128xf32>) -> tensor<128xf32> {
  %z = arith.addf %x, %y : tensor<128xf32>
  return %z : tensor<128xf32>
}
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<64xf32> {dm.name = "w"}, tensor<128xf32> {dm.name = "out"}) {
  %new = "dm.kernel"(%w) {body = @double} : (tensor<64xf32>) -> tensor<64xf32>
  %late = "dm.kernel"(%w) {body = @double} : (tensor<64xf32>) -> tensor<64xf32>
  %one = "dm.pack"(%new, %late) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %two = "dm.pack"(%late, %new) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %out = "dm.kernel"(%one, %two) {body = @add} : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  return %new, %out : tensor<64xf32>, tensor<128xf32>
}

// -----

// Near miss: a kernel that also reads a part of the operand, as another operand, does not work in its place.
// CHECK-LABEL: func.func @step
// CHECK: body = @make, dm.offsets = array<i64: [[X:[0-9]+]]>
// CHECK: body = @both
// CHECK-NOT: array<i64: [[X]],
// CHECK-SAME: : (tensor<64xf32>, tensor<32xf32>)
func.func private @make(%w: tensor<64xf32>) -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func private @both(%x: tensor<64xf32>, %h: tensor<32xf32>) -> (tensor<64xf32>, tensor<32xf32>) {
  %y = arith.addf %x, %x : tensor<64xf32>
  %z = math.exp %h : tensor<32xf32>
  return %y, %z : tensor<64xf32>, tensor<32xf32>
}
func.func private @last(%y: tensor<64xf32>, %z: tensor<32xf32>) -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"}) -> (tensor<64xf32> {dm.name = "w"}) {
  %x = "dm.kernel"(%w) {body = @make} : (tensor<64xf32>) -> tensor<64xf32>
  %h = tensor.extract_slice %x[0] [32] [1] : tensor<64xf32> to tensor<32xf32>
  %y, %z = "dm.kernel"(%x, %h) {body = @both} : (tensor<64xf32>, tensor<32xf32>) -> (tensor<64xf32>, tensor<32xf32>)
  %new = "dm.kernel"(%y, %z) {body = @last} : (tensor<64xf32>, tensor<32xf32>) -> tensor<64xf32>
  return %new : tensor<64xf32>
}

// -----

// Near miss: new values that are two parts of one result do not take the place of the old value that it is made of.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "v", dm.offset = 0 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 256 : i64
// CHECK: body = @repeat, dm.offsets = array<i64: 512>
func.func private @repeat(%x: tensor<64xf32>) -> tensor<128xf32> {
  %z = tensor.concat dim(0) %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  return %z : tensor<128xf32>
}
func.func @step(%v: tensor<64xf32> {dm.name = "v", dm.role = "parameter"}, %w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"})
    -> (tensor<64xf32> {dm.name = "v"}, tensor<64xf32> {dm.name = "w"}) {
  %both = "dm.kernel"(%w) {body = @repeat} : (tensor<64xf32>) -> tensor<128xf32>
  %new_v = tensor.extract_slice %both[0] [64] [1] : tensor<128xf32> to tensor<64xf32>
  %new_w = tensor.extract_slice %both[64] [64] [1] : tensor<128xf32> to tensor<64xf32>
  return %new_v, %new_w : tensor<64xf32>, tensor<64xf32>
}

// -----

// State has its places from another program, in the order of the bucket, which is there too; what else there is lies
// behind.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "v", dm.offset = 768 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 512 : i64
// CHECK-SAME: dm.arenas = {device = 1024 : i64}
// CHECK: "dm.pack"({{.*}}) {dm.offsets = array<i64: 512>, offsets
// CHECK: "dm.unpack"({{.*}}) {dm.offsets = array<i64: 512, 768>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @make() -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func @step(%v: tensor<64xf32> {dm.fixed_offset = 768 : i64, dm.name = "v", dm.role = "parameter"}, %w: tensor<64xf32> {dm.fixed_offset = 512 : i64, dm.name = "w", dm.role = "parameter"})
    -> (tensor<64xf32> {dm.name = "v"}, tensor<64xf32> {dm.name = "w"}) {
  %a = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %b = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %flat = "dm.pack"(%a, %b) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %h, %t = "dm.start"(%flat) ({
  ^bb0(%x: tensor<128xf32>):
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<128xf32>) -> tensor<128xf32>
    "dm.yield"(%r) : (tensor<128xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<128xf32>) -> (!dm.handle<tensor<128xf32>>, !dm.token)
  %sum = "dm.wait"(%h) : (!dm.handle<tensor<128xf32>>) -> tensor<128xf32>
  %new_w, %new_v = "dm.unpack"(%sum) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %new_v, %new_w : tensor<64xf32>, tensor<64xf32>
}

// -----

// The near miss: in another order, so the bucket is elsewhere.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.name = "v", dm.offset = 0 : i64
// CHECK-SAME: dm.name = "w", dm.offset = 256 : i64
// CHECK-SAME: dm.arenas = {device = 1024 : i64}
// CHECK: "dm.pack"({{.*}}) {dm.offsets = array<i64: 512>, offsets
// CHECK: "dm.unpack"({{.*}}) {dm.offsets = array<i64: 512, 768>
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @make() -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func @step(%v: tensor<64xf32> {dm.fixed_offset = 0 : i64, dm.name = "v", dm.role = "parameter"}, %w: tensor<64xf32> {dm.fixed_offset = 256 : i64, dm.name = "w", dm.role = "parameter"})
    -> (tensor<64xf32> {dm.name = "v"}, tensor<64xf32> {dm.name = "w"}) {
  %a = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %b = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %flat = "dm.pack"(%a, %b) {offsets = array<i64: 0, 64>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %h, %t = "dm.start"(%flat) ({
  ^bb0(%x: tensor<128xf32>):
    %r = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp} : (tensor<128xf32>) -> tensor<128xf32>
    "dm.yield"(%r) : (tensor<128xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<128xf32>) -> (!dm.handle<tensor<128xf32>>, !dm.token)
  %sum = "dm.wait"(%h) : (!dm.handle<tensor<128xf32>>) -> tensor<128xf32>
  %new_w, %new_v = "dm.unpack"(%sum) {offsets = array<i64: 0, 64>} : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %new_v, %new_w : tensor<64xf32>, tensor<64xf32>
}

// -----

// A kernel of a whole composite works in place where its code allows it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.arenas = {device = 256 : i64}
// CHECK: "dm.kernel"() {body = @make, dm.offsets = array<i64: 0>}
// CHECK: "dm.kernel"({{.*}}) {body = @slope, dm.offsets = array<i64: 0>}
func.func private @make() -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func private @plain(%x: tensor<64xf32>) -> tensor<64xf32> {
  return %x : tensor<64xf32>
}
func.func private @slope(%x: tensor<64xf32>) -> tensor<64xf32> attributes {dm.in_place = [array<i64: 0, 0>]} {
  %y = "dm.composite"(%x) {kind = "slope", decomposition = @plain, parameters = {}} : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func @step() -> (tensor<64xf32> {dm.name = "y"}) {
  %x = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %y = "dm.kernel"(%x) {body = @slope} : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// Near miss: its code does not.
// CHECK-LABEL: func.func @step
// CHECK-SAME: dm.arenas = {device = 512 : i64}
func.func private @make() -> tensor<64xf32> {
  %c = arith.constant dense<0.0> : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func private @plain(%x: tensor<64xf32>) -> tensor<64xf32> {
  return %x : tensor<64xf32>
}
func.func private @slope(%x: tensor<64xf32>) -> tensor<64xf32> attributes {dm.in_place = []} {
  %y = "dm.composite"(%x) {kind = "slope", decomposition = @plain, parameters = {}} : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func @step() -> (tensor<64xf32> {dm.name = "y"}) {
  %x = "dm.kernel"() {body = @make} : () -> tensor<64xf32>
  %y = "dm.kernel"(%x) {body = @slope} : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
