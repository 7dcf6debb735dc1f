// RUN: dmc-opt %s -p dm-name-kernels --split-input-file | %FileCheck %s

// The first @f stays. What has its name and computes something else is renamed, also where it is launched and named by
// others; what computes the same has its name, whatever it was called.
// CHECK: module @stage0
// CHECK: func.func private @f(
// CHECK-NEXT: math.exp
// CHECK: "dm.kernel"(%{{.+}}) {body = @f}
// CHECK: module @stage1
// CHECK: func.func private @f_stage1(
// CHECK-NEXT: math.tanh
// CHECK: func.func private @f(
// CHECK-NEXT: math.exp
// CHECK: func.func private @outer(
// CHECK-NEXT: call @f_stage1
// CHECK: "dm.kernel"(%{{.+}}) {body = @f_stage1, group = #dm.group<@mesh, ["tp"]>, variants = [@f_stage1, @f]}
// CHECK: "dm.kernel"(%{{.+}}) {body = @outer}
module {
  module @stage0 attributes {dm.stage = {axis = "pp", index = 0 : i64}} {
    func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.exp %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = "dm.kernel"(%x) {body = @f} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
  }
  module @stage1 attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
    "dm.mesh"() {sym_name = "mesh", axes = ["pp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
    func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.tanh %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func private @g(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.exp %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func private @outer(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = "dm.kernel"(%x) {body = @f, variants = [@f, @g], group = #dm.group<@mesh, ["tp"]>} : (tensor<8xf32>) -> tensor<8xf32>
      %1 = "dm.kernel"(%0) {body = @outer} : (tensor<8xf32>) -> tensor<8xf32>
      return %1 : tensor<8xf32>
    }
  }
}

// -----

// Functions that compute the same are two where launches say that they run other code.
// CHECK: module @stage0
// CHECK: "dm.kernel"(%{{.+}}) {body = @f, implementation = "one"}
// CHECK: module @stage1
// CHECK: func.func private @f_stage1(
// CHECK: "dm.kernel"(%{{.+}}) {body = @f_stage1, implementation = "other"}
module {
  module @stage0 attributes {dm.stage = {axis = "pp", index = 0 : i64}} {
    func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = "dm.kernel"(%x) {body = @f, implementation = "one"} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
  }
  module @stage1 attributes {dm.stage = {axis = "pp", index = 1 : i64}} {
    func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = "dm.kernel"(%x) {body = @f, implementation = "other"} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
  }
}
