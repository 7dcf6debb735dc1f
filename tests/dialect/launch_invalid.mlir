// RUN: dmc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{cannot go on 'dp', of queue comm}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.launch"() {lane = @dp, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: #dm.range<@device, [-4, 64]>: bounds are [-4, 64]; they must be a first byte and a number of bytes above 0}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [-4, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: #dm.range<@device, [0]>: bounds are [0]; they must be a first byte and a number of bytes above 0}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [0]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: #dm.range<@device, [0, 0]>: bounds are [0, 0]; they must be a first byte and a number of bytes above 0}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], scratch = #dm.range<@device, [0, 0]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: attribute 'reads' is [@device]; it must be array of ranges}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [@device], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: attribute 'writes' is missing; it must be array of ranges}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{dm.launch: attribute 'kernel' is "relu"; it must be flat symbol reference attribute}}
  "dm.launch"() {lane = @compute, kernel = "relu", reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.launch: is in func.func; it belongs directly in dm.program}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>]} : () -> ()
  return
}

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  // expected-error @+1 {{the stride along dp is -4 : i64; it must be 0 or more bytes}}
  "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>], writes = [#dm.range<@device, [256, 64]>], slices = [#dm.slice<0 : i64, {dp = -4 : i64}>]} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
