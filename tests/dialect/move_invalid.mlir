// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  // expected-error @+1 {{dm.move: copies 64 bytes to 32; both ranges must have equal length}}
  "dm.move"() {lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [0, 32]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  // expected-error @+1 {{dm.move: copies #dm.range<@device, [0, 64]> onto #dm.range<@device, [63, 64]>, which overlaps it}}
  "dm.move"() {lane = @copy_in, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [63, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  // expected-error @+1 {{dm.move: copies #dm.range<@device, [63, 64]> onto #dm.range<@device, [0, 64]>, which overlaps it}}
  "dm.move"() {lane = @copy_in, source = #dm.range<@device, [63, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  // expected-error @+1 {{dm.move: attribute 'source' is missing; it must be #dm.range}}
  "dm.move"() {lane = @copy_in, target = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.arena"() {sym_name = "pinned_host", space = #dm.space<"pinned_host">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "copy_in", queue = #dm.queue<"copy_in">} : () -> ()
  // expected-error @+1 {{dm.move: attribute 'lane' is missing; it must be flat symbol reference attribute}}
  "dm.move"() {source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.move: is in func.func; it belongs directly in dm.program}}
  "dm.move"() {lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [0, 64]>} : () -> ()
  return
}
