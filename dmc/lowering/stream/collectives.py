"""Movements between ranks in one memory, as kernels that read all sources and write all targets.

Operand i is the source of member i, result i its target. Every member gets the same bits: values are combined once, in
group order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dmc.errors import DmcError
from dmc.lowering.kernel_code import Copy, Dispatch, Fill, Group, KernelCode, KernelCommand
from dmc.lowering.stream.regions import Rendezvous
from dmc.program import Collective
from dmc.program.code import Binding, Place, Role
from dmc.program.sizes import element_bytes

# IREE's runtime binds at most this many buffers to a dispatch.
_MOST_BINDINGS = 32

_EXECUTABLE = """stream.executable private @{name} {{
  stream.executable.export public @{name} workgroups() -> (index, index, index) {{
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
    stream.return %x, %y, %z : index, index, index
  }}
  builtin.module {{
    func.func @{name}({arguments}) {{
      %c0 = arith.constant 0 : index
{body}
      return
    }}
  }}
}}"""


@dataclass(frozen=True)
class Combination:
    """`sources` buffers of `count` elements, combined one by one. divisor: of the total; 1 for none."""

    reduction: str
    dtype: str
    accumulate: str
    count: int
    sources: int
    divisor: int = 1

    @property
    def name(self) -> str:
        """A symbol for its executable."""
        parts = (self.reduction, self.dtype, self.accumulate, self.count, self.sources, self.divisor)
        return "combine_" + "_".join(map(str, parts))

    def executable(self) -> str:
        """Its `stream.executable`: one elementwise operation, so that the target may be a source.

        It does not write several targets: IREE's tiling fails if results of one operation are equal. Raises
        DmcError for elements that cannot be combined.
        """
        arguments = [f"%arg{i}: !stream.binding {{stream.alignment = 64 : index}}" for i in range(self.sources + 1)]
        body = "\n".join(f"      {line}" for line in self._body())
        return _EXECUTABLE.format(name=self.name, arguments=", ".join(arguments), body=body)

    def _body(self) -> list[str]:
        tensor, n = f"tensor<{self.count}x{self.dtype}>", self.sources
        slices = f"offsets = [0], sizes = [{self.count}], strides = [1]"
        reading, writing = (f"!iree_tensor_ext.dispatch.tensor<{each}:{tensor}>" for each in ("readonly", "writeonly"))
        lines = [
            f"%b{i} = stream.binding.subspan %arg{i}[%c0] : !stream.binding -> {kind}"
            for i, kind in enumerate([*[reading] * n, writing])
        ]
        lines += [
            f"%s{i} = iree_tensor_ext.dispatch.tensor.load %b{i}, {slices} : {reading} -> {tensor}" for i in range(n)
        ]
        maps = ", ".join(["affine_map<(d0) -> (d0)>"] * (n + 1))
        sources, types = ", ".join(f"%s{i}" for i in range(n)), ", ".join([tensor] * n)
        arguments = ", ".join([*(f"%x{i}: {self.dtype}" for i in range(n)), f"%o: {self.dtype}"])
        return [
            *lines,
            f"%e = tensor.empty() : {tensor}",
            f'%r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}} '
            f"ins({sources} : {types}) outs(%e : {tensor}) {{",
            f"^bb0({arguments}):",
            *self._combining(),
            f"}} -> {tensor}",
            f"iree_tensor_ext.dispatch.tensor.store %r, %b{n}, {slices} : {tensor} -> {writing}",
        ]

    def _combining(self) -> list[str]:
        wide, is_float = self.accumulate, "f" in self.dtype
        names, lines = [f"%x{i}" for i in range(self.sources)], list[str]()
        if wide != self.dtype:
            extend = "arith.extf" if is_float else "arith.extsi"
            lines += [f"%w{i} = {extend} {name} : {self.dtype} to {wide}" for i, name in enumerate(names)]
            names = [f"%w{i}" for i in range(self.sources)]
        total = names[0]
        for i, name in enumerate(names[1:]):
            lines.append(f"%t{i} = {self._operation(is_float)} {total}, {name} : {wide}")
            total = f"%t{i}"
        if self.divisor > 1:
            lines += [f"%n = arith.constant {float(self.divisor)} : {wide}", f"%q = arith.divf {total}, %n : {wide}"]
            total = "%q"
        if wide != self.dtype:
            truncate = "arith.truncf" if is_float else "arith.trunci"
            lines.append(f"%z = {truncate} {total} : {wide} to {self.dtype}")
            total = "%z"
        return [*lines, f"linalg.yield {total} : {self.dtype}"]

    def _operation(self, is_float: bool) -> str:
        operations = _OPERATIONS.get(self.reduction, ())
        if self.dtype == "i1" or len(operations) <= (not is_float):
            raise DmcError(self.reduction, f"cannot combine elements of type {self.dtype}", "convert them first")
        return operations[not is_float]


# For floats and for integers.
_OPERATIONS = {
    "sum": ("arith.addf", "arith.addi"),
    "mean": ("arith.addf",),
    "prod": ("arith.mulf", "arith.muli"),
    "min": ("arith.minimumf", "arith.minsi"),
    "max": ("arith.maximumf", "arith.maxsi"),
}


def rendezvous_code(meeting: Rendezvous) -> tuple[KernelCode, dict[str, str]]:
    """The implementation of a movement between ranks, and the executables that it needs.

    Raises DmcError for a kind that does not exist, for elements that cannot be combined, and for too many members.
    """
    members = list(meeting.members.values())
    first = members[0]
    if first.kind not in _RULES:
        raise DmcError(first.label or first.channel, f"has no rule for a '{first.kind}'", "please report this")
    commands, executables = _RULES[first.kind](members)
    return KernelCode(f"{first.kind}_{first.instance}", tuple(commands), 0), executables


_Commands = tuple[list[KernelCommand], dict[str, str]]
_ROLES: tuple[Role, Role] = ("read", "write")


def _all_reduce(members: list[Collective]) -> _Commands:
    """The total at the first member, then copies of it; a member's target may be its source, which is read before."""
    first, n = members[0], len(members)
    most = _MOST_BINDINGS - 1
    if n > most and first.accumulate != first.dtype:
        fact = f"combines {n} members in {first.accumulate}, but at most {most} are supported"
        raise DmcError(first.label or first.channel, fact, f"use fewer ranks, or combine {first.accumulate}")
    size = first.count * element_bytes(first.dtype)
    sources, targets = ([Place(role, i, 0, size) for i in range(n)] for role in _ROLES)
    commands: list[KernelCommand] = []
    executables: dict[str, str] = {}
    total, rest = sources[:1], sources[1:]
    while rest or total == sources[:1]:
        taken, rest = rest[: most - 1], rest[most - 1 :]
        command, used = _combined(first, 1 if rest else n, [*total, *taken], targets[0], first.count)
        commands.append(command)
        executables |= used
        total = targets[:1]
    return [*commands, Group(tuple(Copy(targets[0], target) for target in targets[1:]))], executables


def _reduce_scatter(members: list[Collective]) -> _Commands:
    first, n = members[0], len(members)
    if n + 1 > _MOST_BINDINGS:
        fact = f"combines {n} members, but at most {_MOST_BINDINGS - 1} are supported"
        raise DmcError(first.label or first.channel, fact, "use fewer ranks in a group")
    piece = first.count // n
    size = piece * element_bytes(first.dtype)
    commands: list[KernelCommand] = []
    executables: dict[str, str] = {}
    for j in range(n):
        sources = [Place("read", i, j * size, size) for i in range(n)]
        command, executables = _combined(first, n, sources, Place("write", j, 0, size), piece)
        commands.append(command)
    return [Group(tuple(commands))], executables


def _combined(
    first: Collective, divisor: int, sources: list[Place], target: Place, count: int
) -> tuple[Dispatch, dict[str, str]]:
    assert first.reduction is not None and first.accumulate is not None
    divided = divisor if first.reduction == "mean" else 1
    work = Combination(first.reduction, first.dtype, first.accumulate, count, len(sources), divided)
    bindings = [Binding("ro", place) for place in sources] + [Binding("wo", target)]
    ordered = frozenset((i, len(sources)) for i in range(len(sources)))
    return Dispatch(work.name, work.name, (), (), tuple(bindings), ordered), {work.name: work.executable()}


def _all_gather(members: list[Collective]) -> _Commands:
    size, n = members[0].count * element_bytes(members[0].dtype), len(members)
    pairs = [(i, j) for j in range(n) for i in range(n)]
    return _copies([Copy(Place("read", i, 0, size), Place("write", j, i * size, size)) for i, j in pairs])


def _all_to_all(members: list[Collective]) -> _Commands:
    n = len(members)
    size = members[0].count // n * element_bytes(members[0].dtype)
    pairs = [(i, j) for j in range(n) for i in range(n)]
    return _copies([Copy(Place("read", i, j * size, size), Place("write", j, i * size, size)) for i, j in pairs])


def _broadcast(members: list[Collective]) -> _Commands:
    size, root = members[0].count * element_bytes(members[0].dtype), members[0].peer
    assert root is not None
    return _copies([Copy(Place("read", root, 0, size), Place("write", j, 0, size)) for j in range(len(members))])


def _permute(members: list[Collective]) -> _Commands:
    size = members[0].count * element_bytes(members[0].dtype)
    source_of = {target: source for source, target in members[0].pairs}
    commands: list[KernelCommand] = []
    for j in range(len(members)):
        target = Place("write", j, 0, size)
        given = source_of.get(j)
        commands.append(Fill("0 : i8", target) if given is None else Copy(Place("read", given, 0, size), target))
    return _copies(commands)


def _send(members: list[Collective]) -> _Commands:
    senders = [i for i, member in enumerate(members) if member.kind == "send"]
    receivers = [i for i, member in enumerate(members) if member.kind == "recv"]
    if len(senders) != 1 or len(receivers) != 1:
        fact = f"instance {members[0].instance} has {len(senders)} sends and {len(receivers)} receives"
        raise DmcError(members[0].label or members[0].channel, fact, "sends and receives must be paired")
    size = members[0].count * element_bytes(members[0].dtype)
    return _copies([Copy(Place("read", senders[0], 0, size), Place("write", receivers[0], 0, size))])


def _copies(commands: list[KernelCommand]) -> _Commands:
    return [Group(tuple(commands))], {}


_RULES: Mapping[str, Callable[[list[Collective]], _Commands]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "permute": _permute,
    "recv": _send,
    "reduce_scatter": _reduce_scatter,
    "send": _send,
}
