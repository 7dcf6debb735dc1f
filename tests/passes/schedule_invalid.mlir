// RUN: dmc-opt %s -p "dm-schedule{machine=h200x2 memory_cap=40000}" --split-input-file --verify-diagnostics

func.func private @wide(%x: tensor<1024xf32>) -> tensor<10240xf32> attributes {dm.kind = "other"} {
  %y = tensor.empty() : tensor<10240xf32>
  return %y : tensor<10240xf32>
}
func.func private @narrow(%x: tensor<10240xf32>) -> tensor<1024xf32> attributes {dm.kind = "other"} {
  %y = tensor.empty() : tensor<1024xf32>
  return %y : tensor<1024xf32>
}
// expected-error @unknown {{the step: needs 49,152 bytes of device memory, but the cap is 40,000; the peak is at wide (operation 0 of @step): 49,152 bytes}}
func.func @step(%x: tensor<1024xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<1024xf32> {dm.name = "z"}) {
  %u = "dm.kernel"(%x) {body = @wide, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "wide"} : (tensor<1024xf32>) -> tensor<10240xf32>
  %v = "dm.kernel"(%u) {body = @narrow, flops = 1000 : i64, bytes = 8192 : i64, dm.label = "narrow"} : (tensor<10240xf32>) -> tensor<1024xf32>
  return %v : tensor<1024xf32>
}

// -----

func.func @step(%x: tensor<8xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<8xf32> {dm.name = "z"}) {
  // expected-error @+1 {{arith.addf: may not appear in @step in form 'scheduled'}}
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func private @work(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32> {dm.name = "x", dm.role = "frozen"}) -> (tensor<8xf32> {dm.name = "z"}) {
  // expected-error @+1 {{dm.kernel: does not state its flops and bytes}}
  %y = "dm.kernel"(%x) {body = @work} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
