"""Modules that break a rule of `dm.verify_symbols`: the broken op stands on the line after `// HERE`."""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = """
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "on_dp", group = #dm.group<@mesh, ["dp"]>} : () -> ()
func.func private @twice(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = arith.addf %a, %a : tensor<8xf32>
  return %b : tensor<8xf32>
}
"""


@dataclass(frozen=True)
class Case:
    """A module and a part of the message that it must give."""

    name: str
    message: str
    text: str


def _in_function(body: str) -> str:
    return f"func.func @f(%x: tensor<8xf32>, %m: tensor<4x8xf32>, %t: !dm.token) {{\n{body}\n  return\n}}"


def _start(instance: int, movement: str, gives: str) -> str:
    handle = "tensor<8xf32>" if gives else "none"
    yielded = '"dm.yield"(%r) : (tensor<8xf32>) -> ()' if gives else '"dm.yield"() : () -> ()'
    argument = "" if "dm.recv" in movement else "^bb0(%a: tensor<8xf32>):"
    operand, types, sizes = ("()", "()", "0, 0") if "dm.recv" in movement else ("(%x)", "(tensor<8xf32>)", "1, 0")
    return (
        f'  %h{instance}{gives}, %t{instance}{gives} = "dm.start"{operand} ({{\n{argument}\n{movement}\n{yielded}\n}}) '
        f'{{queue = #dm.queue<"comm">, instance = {instance} : i64, operandSegmentSizes = array<i32: {sizes}>}} '
        f": {types} -> (!dm.handle<{handle}>, !dm.token)"
    )


_DP = '#dm.group<@mesh, ["dp"]>'
_BROADCAST = f'%r = "dm.broadcast"(%a) {{root = 0 : i64, group = {_DP}}} : (tensor<8xf32>) -> tensor<8xf32>'
_SEND = f'"dm.send"(%x) {{target = 1 : i64, instance = 1 : i64, group = {_DP}}} : (tensor<8xf32>) -> ()'
_RECV = f'%r = "dm.recv"() {{source = 0 : i64, instance = 1 : i64, group = {_DP}}} : () -> tensor<8xf32>'


def _composite(function: str, operands: str = "%x", types: str = "(tensor<8xf32>) -> tensor<8xf32>") -> str:
    attributes = f'{{kind = "double", decomposition = @{function}, parameters = {{}}}}'
    return f'  // HERE\n  %c = "dm.composite"({operands}) {attributes} : {types}'


def _reshard(source: str, target: str, result: str = "tensor<4x8xf32>") -> str:
    return _in_function(
        "  // HERE\n"
        f'  %y = "dm.reshard"(%m) {{source = #dm.sharding<@mesh, {source}>, target = #dm.sharding<@mesh, {target}>}} '
        f": (tensor<4x8xf32>) -> {result}"
    )


def _movement(op: str, attributes: str, types: str, group: str = _DP) -> str:
    operand = "%m" if "4x8" in types.split("->", maxsplit=1)[0] else "%x"
    return _in_function(f'  // HERE\n  %y = "dm.{op}"({operand}) {{{attributes}, group = {group}}} : {types}')


def _stated(sharding: str, type_: str = "tensor<8xf32>") -> str:
    return f"// HERE\nfunc.func @g(%w: {type_} {{dm.sharding = {sharding}}}) {{ return }}"


_SAME = "(tensor<8xf32>) -> tensor<8xf32>"
_GATHER = "(tensor<4x8xf32>) -> tensor<16x8xf32>"
_SCATTER = "(tensor<4x8xf32>) -> tensor<1x8xf32>"
_REDUCE = 'reduction = #dm.reduction<"sum">, accumulate = f32'

CASES = (
    Case(
        "gather_factor",
        "dimension 0 of the result is 16; with 2 ranks in",
        _movement("all_gather", "dim = 0 : i64", _GATHER),
    ),
    Case(
        "scatter_factor",
        "and 1 in the result it must be 2",
        _movement("reduce_scatter", f"dim = 0 : i64, {_REDUCE}", _SCATTER),
    ),
    Case(
        "slice_factor",
        "and 1 in the result it must be 2",
        _movement("all_slice", "dim = 0 : i64", _SCATTER),
    ),
    Case(
        "slice_axis",
        "has no axis 'pp'; its axes are dp, tp",
        _movement("all_slice", "dim = 0 : i64", _SCATTER, '#dm.group<@mesh, ["pp"]>'),
    ),
    Case(
        "all_to_all_factor",
        "dimension 0 goes from 4 to 1; ",
        _movement("all_to_all", "split_dim = 0 : i64, concat_dim = 1 : i64", "(tensor<4x8xf32>) -> tensor<1x32xf32>"),
    ),
    Case(
        "all_to_all_slices",
        "dimension 0 is 4, which is not divisible by the 8 ranks of",
        _movement(
            "all_to_all",
            "split_dim = 0 : i64, concat_dim = 0 : i64",
            "(tensor<4x8xf32>) -> tensor<4x8xf32>",
            '#dm.group<@mesh, ["dp", "tp"]>',
        ),
    ),
    Case("root", "root is 2, but #dm.group", _movement("broadcast", "root = 2 : i64", _SAME)),
    Case(
        "permute_source",
        "source is 2, but #dm.group",
        _movement("permute", "source_target_pairs = dense<[[2, 0]]> : tensor<1x2xi64>", _SAME),
    ),
    Case(
        "permute_target",
        "target is 5, but #dm.group",
        _movement("permute", "source_target_pairs = dense<[[0, 5]]> : tensor<1x2xi64>", _SAME),
    ),
    Case(
        "mesh_missing",
        "@nowhere is not defined",
        _movement("all_reduce", _REDUCE, _SAME, '#dm.group<@nowhere, ["dp"]>'),
    ),
    Case(
        "mesh_is_function",
        "@twice is a func.func",
        _movement("all_reduce", _REDUCE, _SAME, '#dm.group<@twice, ["dp"]>'),
    ),
    Case(
        "axis_missing",
        "has no axis 'pp'; its axes are dp, tp",
        _movement("all_reduce", _REDUCE, _SAME, '#dm.group<@mesh, ["pp"]>'),
    ),
    Case(
        "channel_missing",
        "@none is not defined; declare a dm.channel",
        _movement("all_reduce", f"{_REDUCE}, channel = @none", _SAME),
    ),
    Case(
        "channel_is_mesh",
        "@mesh is a dm.mesh; declare a dm.channel",
        _movement("all_reduce", f"{_REDUCE}, channel = @mesh", _SAME),
    ),
    Case(
        "channel_group",
        "its channel @on_dp is declared for",
        _movement("all_reduce", f"{_REDUCE}, channel = @on_dp", _SAME, '#dm.group<@mesh, ["tp"]>'),
    ),
    Case(
        "channel_mesh",
        "@nowhere is not defined",
        '// HERE\n"dm.channel"() {sym_name = "c", group = #dm.group<@nowhere, ["dp"]>} : () -> ()',
    ),
    Case(
        "send_target",
        "target is 2, but #dm.group",
        _in_function("  // HERE\n" + _SEND.replace("target = 1", "target = 2") + "\n" + _RECV),
    ),
    Case(
        "recv_source",
        "source is 9, but #dm.group",
        _in_function(_SEND + "\n  // HERE\n" + _RECV.replace("source = 0", "source = 9")),
    ),
    Case(
        "send_channel",
        "@none is not defined",
        _in_function("  // HERE\n" + _SEND.replace("target", "channel = @none, target") + "\n" + _RECV),
    ),
    Case(
        "recv_channel",
        "@none is not defined",
        _in_function(_SEND + "\n  // HERE\n" + _RECV.replace("source", "channel = @none, source")),
    ),
    Case("send_alone", "instance 1 has no dm.recv", _in_function("  // HERE\n" + _SEND)),
    Case("recv_alone", "instance 1 has no dm.send", _in_function("  // HERE\n" + _RECV)),
    Case("send_twice", "instance 1 is already used", _in_function(_SEND + "\n  // HERE\n" + _SEND + "\n" + _RECV)),
    Case(
        "recv_twice",
        "instance 1 is already used",
        _in_function(_SEND + "\n" + _RECV + "\n  // HERE\n" + _RECV.replace("%r", "%s")),
    ),
    Case(
        "message_type",
        "instance 1 receives tensor<9xf32>, but tensor<8xf32> is sent at",
        _in_function(_SEND + "\n  // HERE\n" + _RECV.replace("tensor<8xf32>", "tensor<9xf32>")),
    ),
    Case(
        "message_group",
        "but sent on #dm.group",
        _in_function(_SEND + "\n  // HERE\n" + _RECV.replace('["dp"]', '["tp"]')),
    ),
    Case(
        "instance_twice",
        "instance 4 is already used by the dm.start at",
        _in_function(_start(4, _BROADCAST, "a") + "\n  // HERE\n" + _start(4, _BROADCAST, "b")),
    ),
    Case(
        "instance_of_a_message",
        "instance 1 is already used by the dm.start at",
        _in_function(
            _start(1, _SEND.replace("%x", "%a"), "")
            + "\n"
            + _RECV.replace("%r", "%s")
            + "\n  // HERE\n"
            + _start(1, _BROADCAST, "b")
        ),
    ),
    Case("reshard_axis", "has no axis 'pp'", _reshard('[["pp"], []], {}', "[[], []], {}")),
    Case("reshard_partial_axis", "has no axis 'pp'", _reshard('[[], []], {pp = #dm.reduction<"sum">}', "[[], []], {}")),
    Case(
        "reshard_whole",
        "dimension 0 of the whole is 4 by 'source' but 8 by 'target'",
        _reshard("[[], []], {}", '[["dp", "tp"], []], {}', "tensor<1x8xf32>"),
    ),
    Case(
        "argument_rank",
        "shards 1 dimensions, but tensor<4x8xf32>",
        _stated('#dm.sharding<@mesh, [["dp"]], {}>', "tensor<4x8xf32>"),
    ),
    Case("argument_axis", "has no axis 'pp'", _stated('#dm.sharding<@mesh, [["pp"]], {}>')),
    Case("argument_axis_twice", "uses axis 'dp' twice", _stated('#dm.sharding<@mesh, [["dp", "dp"]], {}>')),
    Case("argument_no_sharding", "dm.sharding of argument 0 is 3 : i64", _stated("3 : i64")),
    Case("argument_scalar", "is on a value of type f32", _stated("#dm.sharding<@mesh, [], {}>", "f32")),
    Case(
        "result_rank",
        "shards 2 dimensions, but tensor<7xf32> has 1",
        '// HERE\nfunc.func private @g() -> (tensor<7xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>})',
    ),
    Case("decomposition_missing", "decomposition @none is not defined", _in_function(_composite("none"))),
    Case("decomposition_is_mesh", "decomposition @mesh is a dm.mesh", _in_function(_composite("mesh"))),
    Case(
        "decomposition_public",
        "decomposition @open is public",
        _in_function(_composite("open"))
        + "\nfunc.func @open(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }",
    ),
    Case(
        "decomposition_declared",
        "decomposition @outside has no body",
        _in_function(_composite("outside")) + "\nfunc.func private @outside(tensor<8xf32>) -> tensor<8xf32>",
    ),
    Case(
        "decomposition_operands",
        "operand types are (tensor<4x8xf32>), but decomposition @twice has (tensor<8xf32>)",
        _in_function(_composite("twice", "%m", "(tensor<4x8xf32>) -> tensor<8xf32>")),
    ),
    Case(
        "decomposition_results",
        "result types are (), but decomposition @twice has (tensor<8xf32>)",
        _in_function(_composite("twice", types="(tensor<8xf32>) -> ()").replace("%c = ", "")),
    ),
    Case(
        "decomposition_reaches_itself",
        "decomposition @loop is recursive",
        "func.func private @loop(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        + _composite("loop")
        + "\n  return %c : tensor<8xf32>\n}",
    ),
    Case(
        "decompositions_reach_each_other",
        "is recursive",
        "func.func private @even(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        + _composite("odd").replace("  // HERE\n", "")
        + "\n  return %c : tensor<8xf32>\n}\nfunc.func private @odd(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        + _composite("even").replace("  // HERE\n", "")
        + "\n  return %c : tensor<8xf32>\n}",
    ),
    Case(
        "decomposition_with_effects",
        "in decomposition @sends",
        _in_function(_composite("sends").replace("  // HERE\n", ""))
        + "\nfunc.func private @sends(%x: tensor<8xf32>) -> tensor<8xf32> {\n  // HERE\n  "
        + f"{_SEND}\n  {_RECV}\n  return %x : tensor<8xf32>\n}}",
    ),
)

LEGAL = (
    Case(
        "gather", "", _movement("all_gather", "dim = 0 : i64, channel = @on_dp", "(tensor<4x8xf32>) -> tensor<8x8xf32>")
    ),
    Case(
        "scatter", "", _movement("reduce_scatter", f"dim = 0 : i64, {_REDUCE}", "(tensor<4x8xf32>) -> tensor<2x8xf32>")
    ),
    Case("message", "", _in_function(_SEND + "\n" + _RECV)),
    Case(
        "ends_of_a_message_share_an_instance",
        "",
        _in_function(
            _start(1, _SEND.replace("%x", "%a"), "") + "\n" + _start(1, _RECV, "b") + "\n" + _start(2, _BROADCAST, "c")
        ),
    ),
    Case("composite", "", _in_function(_composite("twice"))),
    Case("reshard", "", _reshard('[["dp"], ["tp"]], {}', "[[], []], {}", "tensor<8x32xf32>")),
    Case("sharded_argument", "", _stated('#dm.sharding<@mesh, [["dp", "tp"]], {}>', "tensor<2xf32>")),
)
