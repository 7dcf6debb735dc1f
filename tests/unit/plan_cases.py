"""Modules with kernels and programs that break a rule of `dm.verify_symbols`: the op stands after `// HERE`."""

from __future__ import annotations

from tests.unit.symbol_cases import Case

# The prelude of tests/unit/symbol_cases.py has a mesh of 2 × 4 ranks, a channel @on_dp and a function @twice of 8 f32.
_ONE = "(tensor<8xf32>) -> tensor<8xf32>"
_MOVES = '%r = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>'


def _kernel(attributes: str, types: str = _ONE, more: str = "") -> str:
    result = "" if types.endswith("()") else "%y = "
    kernel = f'  // HERE\n  {result}"dm.kernel"(%x) {{{attributes}}} : {types}'
    return f"func.func @f(%x: tensor<8xf32>) {{\n{kernel}\n  return\n}}{more}"


def _function(name: str, body: str = "", visibility: str = "private ") -> str:
    return (
        f"\nfunc.func {visibility}@{name}(%x: tensor<8xf32>) -> tensor<8xf32> {{\n{body}  return %x : tensor<8xf32>\n}}"
    )


def _program(commands: str, rank: int = 0) -> str:
    return (
        '"dm.program"() ({\n'
        '  "dm.arena"() {sym_name = "device", space = #dm.space<"device">, bytes = 512 : i64} : () -> ()\n'
        '  "dm.lane"() {sym_name = "compute", queue = #dm.queue<"compute">} : () -> ()\n'
        f'{commands}\n}}) {{sym_name = "program{rank}", ranks = array<i64: {rank}>}} : () -> ()\n'
    )


def _launch(kernel: str, reads: int = 32, writes: str = "[256, 32]", more: str = "") -> str:
    ranges = (
        f"reads = [#dm.range<@device, [0, {reads}]>], writes = [{f'#dm.range<@device, {writes}>' if writes else ''}]"
    )
    return f'  // HERE\n  "dm.launch"() {{lane = @compute, kernel = @{kernel}, {ranges}{more}}} : () -> ()'


def _differing(more: str) -> str:
    return _program(_launch("twice", more=f", {more}"))


def _lane(channel: str) -> str:
    return f'  // HERE\n  "dm.lane"() {{sym_name = "c", queue = #dm.queue<"comm">, channel = @{channel}}} : () -> ()'


def _collective(more: str, kind: str = "all_to_all") -> str:
    ends = "source = #dm.range<@device, [0, 32]>, target = #dm.range<@device, [256, 32]>"
    fields = f'lane = @c, kind = "{kind}", instance = 0 : i64, type = f32, count = 8 : i64'
    return f'\n  // HERE\n  "dm.collective"() {{{fields}, {ends}{more}}} : () -> ()'


def _programs(count: int) -> str:
    return "".join(_program("", rank) for rank in range(count))


CASES = (
    Case("body_missing", "body @none is not defined", _kernel("body = @none")),
    Case("body_is_mesh", "body @mesh is a dm.mesh", _kernel("body = @mesh")),
    Case("body_public", "body @open is public", _kernel("body = @open", more=_function("open", visibility=""))),
    Case(
        "body_declared",
        "body @outside has no body",
        _kernel("body = @outside", more=f"\nfunc.func private @outside{_ONE}"),
    ),
    Case(
        "body_types",
        "result types are (), but body @twice has (tensor<8xf32>)",
        _kernel("body = @twice", "(tensor<8xf32>) -> ()"),
    ),
    Case(
        "variant_missing",
        "variant @none is not defined",
        _kernel('body = @twice, variants = [@twice, @none], group = #dm.group<@mesh, ["dp"]>'),
    ),
    Case(
        "variant_for_each_member",
        'has 2 variants, but #dm.group<@mesh, ["tp"]> has 4 members',
        _kernel('body = @twice, variants = [@twice, @twice], group = #dm.group<@mesh, ["tp"]>'),
    ),
    Case(
        "variants_of_no_axis",
        "has no axis 'pp'",
        _kernel('body = @twice, variants = [@twice, @twice], group = #dm.group<@mesh, ["pp"]>'),
    ),
    Case(
        "body_moves",
        "is in @moves, which the dm.kernel at",
        _kernel("body = @moves", more=_function("moves", f"  // HERE\n  {_MOVES}\n")).replace("// HERE", "//", 1),
    ),
    Case(
        "variant_launches",
        "is in @nested, which the dm.kernel at",
        _kernel(
            'body = @twice, variants = [@twice, @nested], group = #dm.group<@mesh, ["dp"]>',
            more=_function("nested", f'  // HERE\n  %r = "dm.kernel"(%x) {{body = @twice}} : {_ONE}\n'),
        ).replace("// HERE", "//", 1),
    ),
    Case("launch_of_nothing", "its kernel @none is not a function of the module", _program(_launch("none"))),
    Case("launch_of_a_mesh", "its kernel @mesh is not a function of the module", _program(_launch("mesh"))),
    Case(
        "launch_of_a_public_function",
        "its kernel @open is public",
        _program(_launch("open")) + _function("open", visibility=""),
    ),
    Case("launch_writes_less", "writes 0 ranges, but @twice has 1", _program(_launch("twice", writes=""))),
    Case(
        "launch_reads_less",
        "reads #dm.range<@device, [0, 16]> does not have the 32 bytes of tensor<8xf32>",
        _program(_launch("twice", reads=16)),
    ),
    Case(
        "launch_writes_more",
        "writes #dm.range<@device, [256, 64]> does not have the 32 bytes of tensor<8xf32>",
        _program(_launch("twice", writes="[256, 64]")),
    ),
    Case(
        "launch_of_scalars",
        "f32 cannot be in an arena",
        _program(_launch("scalar", 4)) + "func.func private @scalar(%x: f32) -> f32 { return %x : f32 }",
    ),
    Case(
        "slice_of_no_read",
        "it has 1 reads, numbered from 0",
        _differing("slices = [#dm.slice<1 : i64, {dp = 32 : i64}>]"),
    ),
    Case(
        "slice_along_no_axis", "no mesh has an axis 'pp'", _differing("slices = [#dm.slice<0 : i64, {pp = 32 : i64}>]")
    ),
    Case("launch_variants_alone", "both or neither must be given", _differing("variants = [@twice]")),
    Case(
        "launch_variant_for_each_member",
        'has 1 variants, but #dm.group<@mesh, ["dp"]> has 2 members',
        _differing('variants = [@twice], group = #dm.group<@mesh, ["dp"]>'),
    ),
    Case(
        "launch_variant_of_nothing",
        "its kernel @none is not a function of the module",
        _differing('variants = [@twice, @none], group = #dm.group<@mesh, ["dp"]>'),
    ),
    Case(
        "ranks_not_stated",
        "does not state its ranks, but channel @listed lists groups",
        '"dm.channel"() {sym_name = "listed", groups = [array<i64: 0, 1>]} : () -> ()\n'
        + _program(_lane("listed").replace("// HERE", "//") + _collective("")),
    ),
    Case(
        "peer_of_no_member",
        "its peer is 2; it must be an index below 2",
        _program(_lane("on_dp").replace("// HERE", "//") + _collective(", peer = 2 : i64", "broadcast")),
    ),
    Case("lane_of_no_channel", "its channel @none is not declared", _program(_lane("none"))),
    Case("lane_of_a_mesh", "its channel @mesh is not declared", _program(_lane("mesh"))),
    Case("programs_missing", "programs are for ranks [0]; there must be one for each of 8", "// HERE\n" + _program("")),
    Case(
        "program_twice", "rank 0 already has a program", _program("") + "// HERE\n" + _program("").replace("m0", "m1")
    ),
    Case("program_too_many", "one for each of 8, numbered from 0", "// HERE\n" + _programs(9)),
)

LEGAL = (
    Case("kernel", "", _kernel("body = @twice")),
    Case("variants", "", _kernel('body = @twice, variants = [@twice, @twice], group = #dm.group<@mesh, ["dp"]>')),
    Case(
        "composite_in_a_kernel",
        "",
        _kernel(
            "body = @whole",
            more=_function(
                "whole",
                f'  %r = "dm.composite"(%x) {{kind = "k", decomposition = @twice, parameters = {{}}}} : {_ONE}\n',
            ),
        ),
    ),
    Case("programs", "", _program(_lane("on_dp") + "\n" + _launch("twice")) + _programs(8).split("\n", 5)[5]),
)
