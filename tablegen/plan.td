// The planned form: what each rank's lanes do on byte ranges of its arenas.

#ifndef DM_PLAN
#define DM_PLAN

include "attributes.td"

def Dm_RangeAttr : Dm_Attr<"Range", "range"> {
  let summary = "bytes of an arena";
  let description = [{
    `bounds` is the first byte and the number of bytes.

    Rules: two bounds, the first at least 0 and the second at least 1; in a program the arena exists and contains the
    range.

    Example: `#dm.range<@device, [256, 64]>`
  }];
  let parameters = (ins
    Dm_Parameter<FlatSymbolRefAttr, "::mlir::FlatSymbolRefAttr", "the arena", "@device">:$arena,
    Dm_Parameter<I64ArrayAttr, "::mlir::ArrayAttr", "first byte and number of bytes", "[256, 64]">:$bounds);
  let assemblyFormat = "`<` $arena `,` $bounds `>`";
}

def Dm_RangeArrayAttr : TypedArrayAttrBase<Dm_RangeAttr, "array of ranges">;

def Dm_SliceAttr : Dm_Attr<"Slice", "slice"> {
  let summary = "a read at another place on each rank";
  let description = [{
    The read of this number of a command, as the first rank of the program's has it, begins so many bytes further on for
    each step along an axis of the mesh.

    Rules: the number is not negative, and no stride is; in a module the mesh has the axes.

    Example: `#dm.slice<0 : i64, {dp = 256 : i64}>`
  }];
  let parameters = (ins
    Dm_Parameter<Dm_NonNegative, "::mlir::IntegerAttr", "the number of the read", "0 : i64">:$read,
    Dm_Parameter<DictionaryAttr, "::mlir::DictionaryAttr", "axis to bytes", "{dp = 256 : i64}">:$strides);
  let assemblyFormat = "`<` $read `,` $strides `>`";
}

def Dm_SliceArrayAttr : TypedArrayAttrBase<Dm_SliceAttr, "array of slices">;

def Dm_ProgramOp : Dm_Op<"program", [Symbol, SingleBlock, NoTerminator, IsolatedFromAbove,
                                     HasParent<"::mlir::ModuleOp">]> {
  let summary = "everything that the ranks of a class do in a step";
  let description = [{
    All of `ranks` run it. It states the ranges, kernels and members of the first of them; what differs on the others
    is said by `slices` and `variants` of commands, and follows from channels.

    The region declares arenas, lanes, slots and buffers, then holds commands (`dm.launch`, `dm.move`, `dm.collective`,
    `dm.record`, `dm.await`) in the order in which they are issued. The commands of one lane run in that order;
    commands of different lanes may overlap unless events order them. Nothing else synchronises.

    Rules: it contains only ops of the plan, declarations before commands; `ranks` ascend; each rank of the module's
    mesh, or the only one without a mesh, is in one program; all named arenas and lanes exist, and ranges lie inside their
    arenas.

    Lifespan: made by dm-lower-to-plan; completed by dm-place-events; lowered to IREE's stream dialect, or replayed.

    ```mlir
    "dm.program"() ({
      "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
      "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()
      "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>],
                     writes = [#dm.range<@device, [256, 64]>]} : () -> ()
    }) {sym_name = "program0", ranks = array<i64: 0, 1>} : () -> ()
    ```
  }];
  let handBuilt = 1;
  let arguments = (ins SymbolNameAttr:$sym_name, DenseI64ArrayAttr:$ranks);
  let regions = (region SizedRegion<1>:$body);
}

class Dm_PlanOp<string mnemonic, list<Trait> traits = []>
    : Dm_Op<mnemonic, traits # [HasParent<"ProgramOp">]>;

def Dm_ArenaOp : Dm_PlanOp<"arena", [Symbol]> {
  let summary = "the memory of one space that a rank uses";
  let description = [{
    Allocated once, before the first step. Its symbol is the name of its space.

    Rules: named after its space; at most one per space; at least one byte.

    Lifespan: with `dm.program`.

    ```mlir
    "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dm_SpaceAttr:$space, Dm_NonNegative:$bytes);
}

def Dm_LaneOp : Dm_PlanOp<"lane", [Symbol]> {
  let summary = "an in-order queue of a rank";
  let description = [{
    A lane of queue `comm` has the communicator `channel`, and no other lane of the rank has it.

    Rules: a lane has a channel if and only if its queue is `comm`; a channel has one lane.

    Lifespan: with `dm.program`.

    ```mlir
    "dm.lane"() {sym_name = "gradients", queue = #dm.queue<"comm">, channel = @gradients} : () -> ()
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dm_QueueAttr:$queue, OptionalAttr<FlatSymbolRefAttr>:$channel);
}

def Dm_SlotOp : Dm_PlanOp<"slot"> {
  let summary = "where the host finds a tensor of the step";
  let description = [{
    State stays in its slot from step to step and is updated there; the host fills the slots of controls and batch
    before a step and reads those of outputs after it. `type` is that of the rank's part.

    Rules: the range has the size of the type; no two slots have the same name.

    Lifespan: with `dm.program`.

    ```mlir
    "dm.slot"() {name = "fc.weight", role = "parameter", type = tensor<4x4xf32>, range = #dm.range<@device, [0, 64]>}
        : () -> ()
    ```
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$role, TypeAttr:$type, Dm_RangeAttr:$range);
}

def Dm_BufferOp : Dm_PlanOp<"buffer"> {
  let summary = "the content of a range during part of the step";
  let description = [{
    For people and reports: between the commands with the numbers `first` and `last` (from 0, both included) the
    range holds the value that `label` names, of the category `category`.

    Rules: `first` is not after `last`.

    Lifespan: with `dm.program`.

    ```mlir
    "dm.buffer"() {label = "fc.weight", category = "gradient", range = #dm.range<@device, [256, 64]>,
                   first = 4 : i64, last = 9 : i64} : () -> ()
    ```
  }];
  let arguments = (ins StrAttr:$label, StrAttr:$category, Dm_RangeAttr:$range, Dm_NonNegative:$first,
                       Dm_NonNegative:$last);
}

class Dm_Command<string mnemonic> : Dm_PlanOp<mnemonic>;

def Dm_LaunchOp : Dm_Command<"launch"> {
  let summary = "runs a kernel on ranges";
  let description = [{
    `reads` and `writes` are the kernel's operands and results, in order; `scratch` is memory that it may also
    overwrite. A range of `writes` may equal one of `reads` where the kernel works in place. `label` states its origin,
    `action` to which action of a pipeline it belongs: stage 2, forward, micro-batch 0 for `2F0`.
    `slices` are the reads that differ between ranks; `variants` are the kernels of the members of `group`, in its
    order.

    Rules: the lane is not of queue `comm`; in a module `kernel` is a private function, and ranges have the sizes of
    its types; `variants` and `group` come together, one for each member, and have types of the same sizes.

    Lifespan: made by dm-lower-to-plan of `dm.kernel`.

    ```mlir
    "dm.launch"() {lane = @compute, kernel = @relu, reads = [#dm.range<@device, [0, 64]>],
                   writes = [#dm.range<@device, [256, 64]>], label = "fc"} : () -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$lane, FlatSymbolRefAttr:$kernel, Dm_RangeArrayAttr:$reads,
                       Dm_RangeArrayAttr:$writes, OptionalAttr<Dm_RangeAttr>:$scratch, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<Dm_SliceArrayAttr>:$slices, OptionalAttr<FlatSymbolRefArrayAttr>:$variants,
                       OptionalAttr<Dm_GroupAttr>:$group, OptionalAttr<StrAttr>:$action);
}

def Dm_MoveOp : Dm_Command<"move"> {
  let summary = "copies bytes of one rank";
  let description = [{
    Between memory spaces, or within one. `slices`: as of a launch.

    Rules: both ranges have the same length and do not overlap.

    Lifespan: made by dm-lower-to-plan of `dm.copy`.

    ```mlir
    "dm.move"() {lane = @copy_in, source = #dm.range<@pinned_host, [0, 64]>, target = #dm.range<@device, [256, 64]>,
                 label = "batch.0"} : () -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$lane, Dm_RangeAttr:$source, Dm_RangeAttr:$target,
                       OptionalAttr<StrAttr>:$label, OptionalAttr<Dm_SliceArrayAttr>:$slices);
}

def Dm_CollectiveOp : Dm_Command<"collective"> {
  let summary = "a rank's part in a movement between ranks";
  let description = [{
    `kind` is the original op (`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `permute`,
    `send`, `recv`), `instance` identifies the movement in the job. Its members are those of the group of the lane's
    channel that the rank is in; `ranks` states them, in the order of the group, where the channel lists its groups.
    `source` holds `count` elements of `type`. With n members `target` holds as many for an all_reduce, all_to_all,
    broadcast, permute or recv, n times as many for an all_gather, an n-th for a reduce_scatter. Pieces are contiguous
    and in the order of the members: gather and scatter act on whole pieces. `peer` is the root of a broadcast or the
    other end of a message, as an index in the group; `pairs` are sources and targets of a permutation. `slices`: as of
    a launch. `action`: of a message, the one that computes what it carries.

    Rules: the kind exists; the lane is of queue `comm`; exactly the kinds that reduce have a reduction and an
    accumulation type; sizes are as above; the first rank is a member.

    Lifespan: made by dm-lower-to-plan of the movement in a `dm.start`.

    ```mlir
    "dm.collective"() {lane = @gradients, kind = "all_reduce", instance = 3 : i64, type = f32, count = 16 : i64,
                       source = #dm.range<@device, [0, 64]>, target = #dm.range<@device, [0, 64]>,
                       reduction = #dm.reduction<"sum">, accumulate = f32} : () -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$lane, StrAttr:$kind, OptionalAttr<DenseI64ArrayAttr>:$ranks,
                       Dm_NonNegative:$instance,
                       TypeAttr:$type, Dm_NonNegative:$count, OptionalAttr<Dm_RangeAttr>:$source,
                       OptionalAttr<Dm_RangeAttr>:$target, OptionalAttr<Dm_ReductionAttr>:$reduction,
                       OptionalAttr<TypeAttr>:$accumulate, OptionalAttr<Dm_NonNegative>:$peer,
                       OptionalAttr<DenseI64ArrayAttr>:$pairs, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<Dm_SliceArrayAttr>:$slices, OptionalAttr<StrAttr>:$action);
}

def Dm_RecordOp : Dm_Command<"record"> {
  let summary = "signals an event when all earlier commands of its lane have completed";
  let description = [{
    Rules: an event is recorded once in a program.

    Lifespan: added by dm-place-events.

    ```mlir
    "dm.record"() {lane = @compute, event = 0 : i64} : () -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$lane, Dm_NonNegative:$event);
}

def Dm_AwaitOp : Dm_Command<"await"> {
  let summary = "blocks a lane until an event is signalled";
  let description = [{
    Rules: the event is recorded before, in the order of the program.

    Lifespan: added by dm-place-events.

    ```mlir
    "dm.await"() {lane = @gradients, event = 0 : i64} : () -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$lane, Dm_NonNegative:$event);
}

#endif // DM_PLAN
