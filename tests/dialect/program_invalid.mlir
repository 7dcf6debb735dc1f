// RUN: dmc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{dm.program: contains arith.constant; a program may only contain ops of the plan}}
"dm.program"() ({
  %0 = "arith.constant"() {value = 1 : i64} : () -> i64
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{follows a command; move it before all commands}}
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: declares arena 'device' twice}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: declares lane 'compute' twice}}
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: declares channel 'dp' twice}}
"dm.program"() ({
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.lane"() {sym_name = "other", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: declares slot 'x' twice}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.slot"() {name = "x", role = "batch", type = tensor<16xf32>, range = #dm.range<@device, [0, 64]>} : () -> ()
  "dm.slot"() {name = "x", role = "batch", type = tensor<16xf32>, range = #dm.range<@device, [256, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{uses #dm.range<@device, [0, 64]>, whose arena is not declared}}
"dm.program"() ({
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [], writes = [#dm.range<@device, [0, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{uses #dm.range<@host, [0, 64]>, whose arena is not declared}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.slot"() {name = "x", role = "batch", type = tensor<16xf32>, range = #dm.range<@host, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{uses #dm.range<@device, [452, 64]>, but the arena has 512 bytes}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.launch"() {lane = @compute, kernel = @f, reads = [#dm.range<@device, [452, 64]>], writes = []} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{is on lane 'nowhere', which is not declared}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.launch"() {lane = @nowhere, kernel = @f, reads = [], writes = []} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @inside() {
  // expected-error @+1 {{dm.program: is in func.func; it belongs directly in builtin.module}}
  "dm.program"() ({
  ^bb0:
  }) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
  return
}

// -----

// expected-error @+1 {{dm.program: has 0 regions; it must have 1}}
"dm.program"() {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: its ranks are [-1]; they must be numbers that ascend}}
"dm.program"() ({
^bb0:
}) {sym_name = "rank0", ranks = array<i64: -1>} : () -> ()

// -----

// expected-error @+1 {{dm.program: its ranks are [1, 0]; they must be numbers that ascend}}
"dm.program"() ({
^bb0:
}) {sym_name = "rank0", ranks = array<i64: 1, 0>} : () -> ()

// -----

// expected-error @+1 {{dm.program: its ranks are []; they must be numbers that ascend}}
"dm.program"() ({
^bb0:
}) {sym_name = "rank0", ranks = array<i64>} : () -> ()

// -----

// expected-error @+1 {{dm.program: attribute 'ranks' is missing; it must be i64 dense array attribute}}
"dm.program"() ({
^bb0:
}) {sym_name = "rank0"} : () -> ()

// -----

// expected-error @+1 {{dm.program: attribute 'sym_name' is missing; it must be string attribute}}
"dm.program"() ({
^bb0:
}) {ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
^bb0:
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
// expected-note @-3 {{see existing symbol definition here}}
// expected-note @+2 {{see current operation}}
// expected-error @+1 {{redefinition of symbol named 'rank0'}}
"dm.program"() ({
^bb0:
}) {sym_name = "rank0", ranks = array<i64: 1>} : () -> ()
