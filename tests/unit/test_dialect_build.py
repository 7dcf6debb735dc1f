"""Building ops of `dm` and reading them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dmc import dialect as dm
from dmc._mlir import arith, func, ir
from dmc.dialect import runs
from dmc.errors import DmcError


def _tensor(*shape: int, element: str = "f32") -> ir.Type:
    return ir.RankedTensorType.get(shape, ir.Type.parse(element))


def _function(body: Callable[..., Any], *types: ir.Type, beside: str = "") -> ir.Module:
    """A module with `beside`, a mesh, a channel and a function `f` of these argument types, which `body` fills."""
    module = ir.Module.parse(beside)
    with ir.InsertionPoint(module.body):
        dm.mesh(sym_name="mesh", axes=["dp", "tp"], sizes=[2, 4], device="cpu", links=["memory", "nvlink"])
        dm.channel(sym_name="grad", group=dm.group("mesh", ["dp"]))
        function = func.FuncOp("f", (list(types), []))
        with ir.InsertionPoint(function.add_entry_block()):
            body(*function.arguments)
            func.ReturnOp([])
    module.operation.verify()
    dm.verify_symbols(module)
    return module


def test_value_form(context: Any, filecheck: Callable[[object], None]) -> None:
    def body(x: ir.Value, y: ir.Value) -> None:
        dp = dm.group("mesh", ["dp"])
        whole = dm.all_gather(x, result=_tensor(8, 8), dim=0, group=dp)
        piece = dm.reduce_scatter(
            whole.result,
            result=_tensor(4, 8),
            dim=0,
            reduction="sum",
            accumulate=ir.F32Type.get(),
            group=dp,
            channel="grad",
        )
        assert str(piece.channel) == "@grad"
        assert whole.channel is None
        dm.all_reduce(piece.result, reduction="mean", accumulate=ir.F64Type.get(), group=dp)
        dm.all_to_all(x, result=_tensor(2, 16), split_dim=0, concat_dim=1, group=dp)
        dm.broadcast(y, root=1, group=dp)
        dm.permute(y, source_target_pairs=[(0, 1), (1, 0)], group=dp)
        dm.send(y, target=1, instance=3, group=dp)
        dm.recv(result=_tensor(3), source=0, instance=3, group=dp)
        host = dm.copy(y, source="device", target="host")
        assert (host.source.value, host.target.value) == ("device", "host")
        split = dm.sharding("mesh", [["dp"], []], {"tp": "sum"})
        assert dm.split_axes(split) == (("dp",), ())
        assert dm.partial_axes(split) == {"tp": "sum"}
        dm.reshard(x, result=_tensor(8, 2), source=split, target=dm.sharding("mesh", [[], ["tp"]]))

    # CHECK: %[[WHOLE:.*]] = "dm.all_gather"(%arg0) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}
    # CHECK: %[[PIECE:.*]] = "dm.reduce_scatter"(%[[WHOLE]]) {accumulate = f32, channel = @grad, dim = 0 : i64
    # CHECK: "dm.all_reduce"(%[[PIECE]]) {accumulate = f64, {{.*}}, reduction = #dm.reduction<"mean">}
    # CHECK: "dm.all_to_all"(%arg0) {concat_dim = 1 : i64, {{.*}}, split_dim = 0 : i64}
    # CHECK: "dm.broadcast"(%arg1) {{.*}}root = 1 : i64}
    # CHECK: "dm.permute"(%arg1) {{.*}}source_target_pairs = dense<{{.}}[0, 1], [1, 0]]> : tensor<2x2xi64>}
    # CHECK: "dm.send"(%arg1) {{.*}}instance = 3 : i64, target = 1 : i64}
    # CHECK: "dm.recv"() {{.*}}instance = 3 : i64, source = 0 : i64}
    # CHECK: "dm.copy"(%arg1) {source = #dm.space<"device">, target = #dm.space<"host">}
    # CHECK: "dm.reshard"(%arg0) {source = #dm.sharding<@mesh, {{.}}["dp"], []], {tp = #dm.reduction<"sum">}>
    filecheck(_function(body, _tensor(4, 8), _tensor(3)))


def test_slice_form(context: Any, filecheck: Callable[[object], None]) -> None:
    def body(x: ir.Value) -> None:
        dm.all_slice(x, result=_tensor(2, 8), dim=0, group=dm.group("mesh", ["dp"]))

    # CHECK: "dm.all_slice"(%arg0) {dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>} {{.*}} -> tensor<2x8xf32>
    filecheck(_function(body, _tensor(4, 8)))


def test_asynchronous_form(context: Any, filecheck: Callable[[object], None]) -> None:
    def body(x: ir.Value) -> None:
        dp = dm.group("mesh", ["dp"])
        sent = dm.start(x, lambda a: dm.send(a, target=1, instance=0, group=dp), payload=None, queue="comm", instance=0)
        received = dm.start(
            None,
            lambda: dm.recv(result=x.type, source=0, instance=0, group=dp),
            payload=x.type,
            queue="comm",
            instance=0,
            after=[sent.token],
        )
        assert (sent.input, received.input) == (x, None)
        assert (tuple(sent.after), tuple(received.after)) == ((), (sent.token,))
        assert isinstance(dm.movement_of(received), dm.RecvOp)
        assert received.queue.value == "comm"
        assert dm.wait(sent.handle).result is None
        waited = dm.wait(received.handle).result
        assert waited is not None
        assert waited.type == x.type

    # CHECK: %[[SENT:.*]]:2 = "dm.start"(%arg0) ({
    # CHECK: "dm.send"
    # CHECK: %[[GOT:.*]]:2 = "dm.start"(%[[SENT]]#1) ({
    # CHECK: "dm.recv"
    # CHECK: "dm.wait"(%[[SENT]]#0) : (!dm.handle<none>) -> ()
    # CHECK: "dm.wait"(%[[GOT]]#0) : (!dm.handle<tensor<4xf32>>) -> tensor<4xf32>
    filecheck(_function(body, _tensor(4)))


def test_computations_and_buckets(context: Any, filecheck: Callable[[object], None]) -> None:
    def body(x: ir.Value, y: ir.Value, n: ir.Value) -> None:
        kernel = dm.kernel(
            [x, n],
            outputs=[n.type, x.type],
            body="swap",
            implementation="triton.swap",
            tiles={"block": ir.IntegerAttr.get(ir.IndexType.get(), 64)},
            estimated_ns=10,
        )
        assert kernel.inputs == (x, n)
        assert [value.type for value in kernel.outputs] == [n.type, x.type]
        assert kernel.body.value == "swap"
        assert kernel.scratch is None
        flat = dm.pack([x, y], result=_tensor(7), offsets=[3, 0])
        parts = dm.unpack(flat.result, outputs=[x.type, y.type], offsets=[3, 0])
        assert [value.type for value in parts.outputs] == [x.type, y.type]

    # CHECK: "dm.kernel"(%arg0, %arg2) {body = @swap, estimated_ns = 10 : i64, implementation = "triton.swap", tiles =
    # CHECK: %[[FLAT:.*]] = "dm.pack"(%arg0, %arg1) {offsets = array<i64: 3, 0>}
    # CHECK: "dm.unpack"(%[[FLAT]]) {offsets = array<i64: 3, 0>}
    swap = "(%x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<i64>, tensor<4xf32>)"
    swap = f"func.func private @swap{swap} {{ return %n, %x : tensor<i64>, tensor<4xf32> }}"
    filecheck(_function(body, _tensor(4), _tensor(3), _tensor(element="i64"), beside=swap))


def _planned() -> None:
    """One op of the plan of each kind."""
    dm.arena(sym_name="device", space="device", bytes=512)
    dm.lane(sym_name="compute", queue="compute")
    dm.lane(sym_name="grad", queue="comm", channel="grad")
    source, target = dm.byte_range("device", 0, 64), dm.byte_range("device", 256, 128)
    assert dm.bounds(target) == (256, 128)
    dm.slot(name="w", role="parameter", type=_tensor(16), range=source)
    dm.buffer(label="w", category="parameter", range=source, first=0, last=2)
    launch = dm.launch(lane="compute", kernel="same", reads=[source], writes=[source], label="fc")
    assert (list(launch.reads), launch.scratch) == ([source], None)
    dm.record(lane="compute", event=0)
    dm.await_(lane="grad", event=0)
    op = dm.collective(
        lane="grad",
        kind="all_gather",
        ranks=[0, 1],
        instance=7,
        type=ir.F32Type.get(),
        count=16,
        source=source,
        target=target,
    )
    assert (op.kind.value, op.reduction, op.peer) == ("all_gather", None, None)
    dm.move(lane="compute", source=source, target=dm.byte_range("device", 384, 64))


def test_planned_form(context: Any, filecheck: Callable[[object], None]) -> None:
    module = ir.Module.parse(
        "func.func private @same(%x: tensor<16xf32>) -> tensor<16xf32> { return %x : tensor<16xf32> }"
    )
    with ir.InsertionPoint(module.body):
        dm.channel(sym_name="grad", group=dm.group("mesh", ["dp"]))
        dm.program((0,), _planned)
    module.operation.verify()
    # CHECK: "dm.program"() ({
    # CHECK-NEXT: "dm.arena"() {bytes = 512 : i64, space = #dm.space<"device">, sym_name = "device"}
    # CHECK-NEXT: "dm.lane"() {queue = #dm.queue<"compute">, sym_name = "compute"}
    # CHECK-NEXT: "dm.lane"() {channel = @grad, queue = #dm.queue<"comm">, sym_name = "grad"}
    # CHECK-NEXT: "dm.slot"() {name = "w", range = #dm.range<@device, [0, 64]>, role = "parameter", type =
    # CHECK-NEXT: "dm.buffer"() {category = "parameter", first = 0 : i64, label = "w", last = 2 : i64
    # CHECK-NEXT: "dm.launch"() {kernel = @same, label = "fc", lane = @compute, reads = [#dm.range<@device, [0, 64]>]
    # CHECK-NEXT: "dm.record"() {event = 0 : i64, lane = @compute}
    # CHECK-NEXT: "dm.await"() {event = 0 : i64, lane = @grad}
    # CHECK-NEXT: "dm.collective"() {count = 16 : i64, instance = 7 : i64, kind = "all_gather", lane = @grad
    # CHECK-NEXT: "dm.move"() {lane = @compute
    # CHECK-NEXT: }) {ranks = array<i64: 0>, sym_name = "program0"} : () -> ()
    filecheck(module)


def test_composite_builder(context: Any) -> None:
    def body(x: ir.Value, w: ir.Value) -> None:
        eps = ir.FloatAttr.get(ir.F64Type.get(), 1e-5)
        op = dm.composite(
            [x, w], outputs=[x.type, w.type], kind="rms_norm", decomposition="norm", parameters={"eps": eps}
        )
        assert op.kind.value == "rms_norm"
        assert op.decomposition.value == "norm"
        assert op.inputs == (x, w)

    text = "func.func private @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)"
    module = ir.Module.parse(f"{text} {{ return %x, %w : tensor<4x8xf32>, tensor<8xf32> }}")
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("f", ([_tensor(4, 8), _tensor(8)], []))
        with ir.InsertionPoint(function.add_entry_block()):
            body(*function.arguments)
            func.ReturnOp([])
    module.operation.verify()
    dm.verify_symbols(module)


def _number() -> ir.Value:
    return arith.constant(_tensor(), ir.DenseElementsAttr.get_splat(_tensor(), ir.FloatAttr.get_f32(1.0)))


REFUSED: dict[str, tuple[Callable[[ir.Value], Any], str]] = {
    "shape": (
        lambda x: dm.all_gather(x, result=_tensor(6), dim=0, group=dm.group("mesh", ["dp"])),
        "dm.all_gather: dimension 0 of the result is 6",
    ),
    "sign": (lambda x: dm.send(x, target=-1, instance=0, group=dm.group("m", ["dp"])), "attribute 'target' is -1"),
    "word": (lambda x: dm.copy(x, source="device", target="disk"), "one of device, staged, pinned_host, host"),
    "link": (
        lambda x: dm.mesh(sym_name="m", axes=["dp"], sizes=[1], device="cpu", links=["rope"]),
        "one of memory, nvlink, pcie, network",
    ),
    "axes": (lambda x: dm.group("mesh", []), "has no axis"),
    "parameters": (
        lambda x: dm.send(x, target=1, instance=0, group=dm.GroupAttr.get(ir.UnitAttr.get(), ir.ArrayAttr.get([]))),
        "it must be #dm.group",
    ),
    "pairs": (lambda x: dm.permute(x, source_target_pairs=[], group=dm.group("m", ["dp"])), "one row"),
    "wait": (dm.wait, "waits for a tensor<4xf32>"),
    "kernel": (
        lambda x: dm.kernel([x], outputs=[x.type], body="f", group=dm.group("mesh", ["dp"])),
        "dm.kernel: has variants without a group",
    ),
    "range": (lambda x: dm.byte_range("device", 0, 0), "bounds are [0, 0]"),
    "program": (
        lambda x: dm.program((0,), lambda: dm.lane(sym_name="c", queue="comm")),
        "dm.lane: has queue comm and channel None",
    ),
    "movement": (
        lambda x: dm.start(
            x,
            lambda a: dm.copy(a, source="device", target="host"),
            payload=x.type,
            queue="copy_in",
            instance=0,
        ),
        "dm.start: a copy from device to host cannot go on queue copy_in",
    ),
    "yield": (lambda x: dm.yield_([x]), "it belongs directly in dm.start"),
    "nested": (lambda x: dm.mesh(sym_name="m", axes=["a"], sizes=[1], device="cpu", links=["pcie"]), "builtin.module"),
    "runs": (
        lambda x: dm.kernel([x, _number()] * runs.GROUPS, outputs=[], body="f"),
        f"has {2 * runs.GROUPS} runs of operands of equal type; the limit is {runs.GROUPS}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_builder_refuses_and_leaves_nothing(context: Any, name: str) -> None:
    build, message = REFUSED[name]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("f", ([_tensor(4)], []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block), pytest.raises(DmcError) as caught:
        build(block.arguments[0])
    assert message in str(caught.value)
    assert {op.operation.name for op in block.operations} <= {"arith.constant"}


def test_classes_are_built_by_their_builders(context: Any) -> None:
    with pytest.raises(TypeError, match=r"build dm\.yield with its builder"):
        dm.YieldOp([])


def test_a_fault_in_the_body_leaves_nothing(context: Any) -> None:
    def body(_: ir.Value) -> Any:
        raise KeyError("mine")

    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("f", ([_tensor(4)], []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block), pytest.raises(KeyError, match="mine"):
        dm.start(block.arguments[0], body, payload=None, queue="comm", instance=0)
    assert list(block.operations) == []
