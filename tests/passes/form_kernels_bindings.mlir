// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// A sum of fourteen tensors is one kernel.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: "dm.kernel"
// CHECK-NOT: "dm.kernel"
// CHECK: return
func.func @step(%x0: tensor<64xf32> {dm.name = "x0"}, %x1: tensor<64xf32> {dm.name = "x1"},
                %x2: tensor<64xf32> {dm.name = "x2"}, %x3: tensor<64xf32> {dm.name = "x3"},
                %x4: tensor<64xf32> {dm.name = "x4"}, %x5: tensor<64xf32> {dm.name = "x5"},
                %x6: tensor<64xf32> {dm.name = "x6"}, %x7: tensor<64xf32> {dm.name = "x7"},
                %x8: tensor<64xf32> {dm.name = "x8"}, %x9: tensor<64xf32> {dm.name = "x9"},
                %x10: tensor<64xf32> {dm.name = "x10"}, %x11: tensor<64xf32> {dm.name = "x11"},
                %x12: tensor<64xf32> {dm.name = "x12"}, %x13: tensor<64xf32> {dm.name = "x13"})
    -> (tensor<64xf32> {dm.name = "y"}) {
  %s1 = arith.addf %x0, %x1 : tensor<64xf32>
  %s2 = arith.addf %s1, %x2 : tensor<64xf32>
  %s3 = arith.addf %s2, %x3 : tensor<64xf32>
  %s4 = arith.addf %s3, %x4 : tensor<64xf32>
  %s5 = arith.addf %s4, %x5 : tensor<64xf32>
  %s6 = arith.addf %s5, %x6 : tensor<64xf32>
  %s7 = arith.addf %s6, %x7 : tensor<64xf32>
  %s8 = arith.addf %s7, %x8 : tensor<64xf32>
  %s9 = arith.addf %s8, %x9 : tensor<64xf32>
  %s10 = arith.addf %s9, %x10 : tensor<64xf32>
  %s11 = arith.addf %s10, %x11 : tensor<64xf32>
  %s12 = arith.addf %s11, %x12 : tensor<64xf32>
  %s13 = arith.addf %s12, %x13 : tensor<64xf32>
  return %s13 : tensor<64xf32>
}

// -----

// IREE's runtime takes sixteen buffers for a kernel on a GPU: there the sum is two.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: "dm.kernel"
// CHECK-NOT: "dm.kernel"
// CHECK: return
module attributes {dm.target = "cpu+cuda:iree"} {
  func.func @step(%x0: tensor<64xf32> {dm.name = "x0"}, %x1: tensor<64xf32> {dm.name = "x1"},
                    %x2: tensor<64xf32> {dm.name = "x2"}, %x3: tensor<64xf32> {dm.name = "x3"},
                    %x4: tensor<64xf32> {dm.name = "x4"}, %x5: tensor<64xf32> {dm.name = "x5"},
                    %x6: tensor<64xf32> {dm.name = "x6"}, %x7: tensor<64xf32> {dm.name = "x7"},
                    %x8: tensor<64xf32> {dm.name = "x8"}, %x9: tensor<64xf32> {dm.name = "x9"},
                    %x10: tensor<64xf32> {dm.name = "x10"}, %x11: tensor<64xf32> {dm.name = "x11"},
                    %x12: tensor<64xf32> {dm.name = "x12"}, %x13: tensor<64xf32> {dm.name = "x13"})
      -> (tensor<64xf32> {dm.name = "y"}) {
    %s1 = arith.addf %x0, %x1 : tensor<64xf32>
    %s2 = arith.addf %s1, %x2 : tensor<64xf32>
    %s3 = arith.addf %s2, %x3 : tensor<64xf32>
    %s4 = arith.addf %s3, %x4 : tensor<64xf32>
    %s5 = arith.addf %s4, %x5 : tensor<64xf32>
    %s6 = arith.addf %s5, %x6 : tensor<64xf32>
    %s7 = arith.addf %s6, %x7 : tensor<64xf32>
    %s8 = arith.addf %s7, %x8 : tensor<64xf32>
    %s9 = arith.addf %s8, %x9 : tensor<64xf32>
    %s10 = arith.addf %s9, %x10 : tensor<64xf32>
    %s11 = arith.addf %s10, %x11 : tensor<64xf32>
    %s12 = arith.addf %s11, %x12 : tensor<64xf32>
    %s13 = arith.addf %s12, %x13 : tensor<64xf32>
    return %s13 : tensor<64xf32>
  }
}
