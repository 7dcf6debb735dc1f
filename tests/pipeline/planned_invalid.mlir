// RUN: dmc-opt %s --from=planned --to=planned --split-input-file --verify-diagnostics

// expected-error @+1 {{contains no dm.program}}
module {
}

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
// expected-error @+1 {{@kernel is public}}
func.func @kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()
// expected-error @+1 {{not allowed in form 'planned'}}
%nothing = ub.poison : i32
