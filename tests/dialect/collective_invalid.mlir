// RUN: dmc-opt %s --split-input-file --verify-diagnostics

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its kind is 'reduce'; it must be one of all_gather, all_reduce, all_to_all, broadcast, permute, recv, reduce_scatter, send}}
  "dm.collective"() {lane = @dp, kind = "reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its ranks are []; they must be distinct ranks}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its ranks are [0, 0]; they must be distinct ranks}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 0>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its ranks are [0, -1]; they must be distinct ranks}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, -1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: exactly all_reduce and reduce_scatter have a reduction and an accumulation type}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: exactly all_reduce and reduce_scatter have a reduction and an accumulation type}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_gather: exactly all_reduce and reduce_scatter have a reduction and an accumulation type}}
  "dm.collective"() {lane = @dp, kind = "all_gather", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 128]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: accumulates f32 in f16; it must be in the same class and no narrower}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f16} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: accumulates f32 in i32; it must be in the same class and no narrower}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = i32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: has no mean for i32; reduce with sum and divide, or convert to floating point first}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = i32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"mean">, accumulate = i32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: elements of type index cannot be reduced; they must be floating point or integers}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = index, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: exactly broadcast, send, recv have a peer}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, peer = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: broadcast: exactly broadcast, send, recv have a peer}}
  "dm.collective"() {lane = @dp, kind = "broadcast", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its peer is 2; it must be an index below 2}}
  "dm.collective"() {lane = @dp, kind = "broadcast", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, peer = 2 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: exactly permute has pairs}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32, pairs = array<i64: 0, 1>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: permute: exactly permute has pairs}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its pairs are []; they must be alternating sources and targets}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its pairs are [0, 1, 1]; they must be alternating sources and targets}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64: 0, 1, 1>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its sources are [0, 0]; each must be an index below 2, and given once}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64: 0, 1, 0, 0>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its targets are [2]; each must be an index below 2, and given once}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64: 0, 2>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: its sources are [-1]; each must be an index below 2, and given once}}
  "dm.collective"() {lane = @dp, kind = "permute", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, pairs = array<i64: -1, 0>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: reduce_scatter: 16 elements are not divisible by 3 members}}
  "dm.collective"() {lane = @dp, kind = "reduce_scatter", ranks = array<i64: 0, 1, 2>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_to_all: 16 elements are not divisible by 3 members}}
  "dm.collective"() {lane = @dp, kind = "all_to_all", ranks = array<i64: 0, 1, 2>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: its source has 32 bytes; it must have 64}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 32]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_reduce: its source has 0 bytes; it must have 64}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: all_gather: its target has 64 bytes; it must have 128}}
  "dm.collective"() {lane = @dp, kind = "all_gather", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: reduce_scatter: its target has 64 bytes; it must have 32}}
  "dm.collective"() {lane = @dp, kind = "reduce_scatter", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [256, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: send: its target has 64 bytes; it must have 0}}
  "dm.collective"() {lane = @dp, kind = "send", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, peer = 1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: recv: its source has 64 bytes; it must have 0}}
  "dm.collective"() {lane = @dp, kind = "recv", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, peer = 1 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: elements of type index have no size}}
  "dm.collective"() {lane = @dp, kind = "broadcast", ranks = array<i64: 0, 1>, instance = 3 : i64, type = index, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, peer = 0 : i64} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  // expected-error @+1 {{dm.collective: attribute 'instance' is -1 : i64; it must be 64-bit signless integer attribute whose value is non-negative}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = -1 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{cannot go on 'compute', of queue compute}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
  "dm.collective"() {lane = @compute, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank0", ranks = array<i64: 0>} : () -> ()

// -----

// expected-error @+1 {{is for ranks [0, 1], without 2}}
"dm.program"() ({
  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
  "dm.lane"() {sym_name = "dp", queue = #dm.queue<"comm">, channel = @dp} : () -> ()
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
}) {sym_name = "rank2", ranks = array<i64: 2>} : () -> ()

// -----

func.func @outside() {
  // expected-error @+1 {{dm.collective: is in func.func; it belongs directly in dm.program}}
  "dm.collective"() {lane = @dp, kind = "all_reduce", ranks = array<i64: 0, 1>, instance = 3 : i64, type = f32, count = 16 : i64, source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>, reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
  return
}
