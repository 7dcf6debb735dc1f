// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @nowhere(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.copy: copies from device to device; use its operand, or name another space}}
  %y = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @from_elsewhere(%x: tensor<8xf32>) {
  %h = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"pinned_host">} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{dm.copy: copies from host, but its operand was copied to pinned_host at}}
  %d = "dm.copy"(%h) {source = #dm.space<"host">, target = #dm.space<"device">} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @type(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.copy: 'input' is tensor<8xf32> but 'result' is tensor<8xf16>; they must be the same type}}
  %y = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf16>
  return
}

// -----

func.func @space(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.copy: attribute 'target' is #dm.space<"disk">; it must be #dm.space of device, staged, pinned_host, host}}
  %y = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<"disk">} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @space_is_no_word(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected base attribute 'builtin.string' but got 'builtin.integer'}}
  %y = "dm.copy"(%x) {source = #dm.space<"device">, target = #dm.space<1>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_source(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.copy: attribute 'source' is missing; it must be #dm.space of device, staged, pinned_host, host}}
  %y = "dm.copy"(%x) {target = #dm.space<"host">} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
