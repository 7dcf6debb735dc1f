"""IREE's stream-level program → the code of the kernels that are its functions.

The program is text of IREE's MLIR version, and is read with IREE's own bindings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, stream, util

from dmc.errors import CodegenError, DmcError
from dmc.lowering.kernel_code import (
    CodeLibrary,
    Copy,
    Dispatch,
    Fill,
    Group,
    KernelCode,
    KernelCommand,
    with_copies_in,
    without_copy_out,
)
from dmc.lowering.kernels.accesses import binding_accesses
from dmc.lowering.kernels.order import Pairs, ordered_bindings
from dmc.program import aligned
from dmc.program.code import Access, Binding, Place

_READ, _WRITE = 1, 2
# A resource begins with four bytes that state its alignment.
_RESOURCE = re.compile(r'^\s*"?([^\s":]+)"?: "0x[0-9A-Fa-f]{8}([0-9A-Fa-f]*)"', re.MULTILINE)
RESOURCE = "dense_resource<"
_REFERENCE = re.compile(rf'{RESOURCE}"?([^\s">]+)"?>')
_DECLARED = {_READ: "r", _WRITE: "w", _READ | _WRITE: "rw"}
_ACCESS: dict[str, Access] = {"": "ro", "r": "ro", "w": "wo", "rw": "rw"}
# Operations that a function may contain besides commands: they have no effect at this level.
_SILENT = frozenset(
    "arith.constant hal.element_type hal.encoding_type hal.buffer_view.assert "
    "stream.timepoint.immediate stream.timepoint.join stream.resource.dealloca".split()
)


def read_library(schedule: str) -> CodeLibrary:
    """The code of the functions of a stream-level program, whose last arguments are the storage of their results.

    Raises CodegenError, naming the kernels, for functions that do more than a kernel may.
    """
    with ir.Context():
        module = ir.Module.parse(schedule)
        resources = resources_of(schedule)
        texts: dict[str, str] = {}
        accesses: dict[str, tuple[str, ...]] = {}
        ordered: dict[str, Pairs] = {}
        functions: list[ir.Operation] = []
        device = ""
        for view in module.body.operations:
            op = view.operation
            if op.name == "stream.executable":
                texts[_name(op)] = with_constants(op.get_asm(use_local_scope=True), resources)
                accesses[_name(op)], ordered[_name(op)] = binding_accesses(op), ordered_bindings(op)
            elif op.name == "util.func":
                functions.append(op)
            elif "initial_value" in op.attributes and "hal.device.target" in str(op.attributes["initial_value"]):
                device = str(op.attributes["initial_value"]).removesuffix(" : !hal.device")
        canonical, executables = merged(texts)
        codes = _read(functions, canonical, accesses, ordered)
    return CodeLibrary(device, {code.name: without_copy_out(with_copies_in(code)) for code in codes}, executables)


def resources_of(text: str) -> dict[str, str]:
    """The constants that are resources of a module, in hexadecimal digits, by name."""
    return dict(_RESOURCE.findall(text.partition("{-#")[2]))


def with_constants(text: str, resources: Mapping[str, str]) -> str:
    """The text of an operation with its constants: only the text of a whole module has those that are resources."""
    return _REFERENCE.sub(lambda found: f'dense<"0x{resources[found[1]]}">', text)


def _read(
    functions: Sequence[ir.Operation],
    canonical: dict[str, str],
    accesses: dict[str, tuple[str, ...]],
    ordered: dict[str, Pairs],
) -> list[KernelCode]:
    codes: list[KernelCode] = []
    failed: dict[str, CodegenError] = {}
    for op in functions:
        try:
            codes.append(_Reader(_name(op), canonical, accesses, ordered).read(op))
        except CodegenError as error:
            failed[_name(op)] = error
    for error in failed.values():
        raise error.at(failed)
    return codes


def merged(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The representative of each executable, and the texts of representatives; executables equal up to names are
    merged."""
    canonical: dict[str, str] = {}
    first: dict[str, str] = {}
    for name, text in texts.items():
        content = hashlib.sha256(text.replace(f"@{name}", "@").encode()).hexdigest()
        canonical[name] = first.setdefault(content, name)
    return canonical, {name: texts[name] for name in first.values()}


@dataclass
class _Reader:
    """Reads one function.

    canonical: the representative of each executable; accesses: its buffer accesses (`binding_accesses`); ordered: its
    pairs of bindings (`ordered_bindings`). places: that of each resource; scratch: bytes allocated so far.
    """

    kernel: str
    canonical: dict[str, str]
    accesses: dict[str, tuple[str, ...]]
    ordered: dict[str, Pairs]
    places: dict[Any, Place] = field(default_factory=dict)
    scratch: int = 0

    def read(self, function: ir.Operation) -> KernelCode:
        """Its commands in order."""
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            raise self._refused("branches or loops")
        self._arguments(blocks[0], len(ir.FunctionType(function.attributes["function_type"].value).results))
        commands: list[KernelCommand] = []
        for view in blocks[0].operations:
            commands += self._top_level(view)
        return KernelCode(self.kernel, tuple(commands), self.scratch)

    def _arguments(self, block: ir.Block, results: int) -> None:
        first = len(block.arguments) - results
        for number, argument in enumerate(block.arguments):
            place = Place("read", number, 0, 0) if number < first else Place("write", number - first, 0, 0)
            self.places[argument] = place

    def _top_level(self, op: Any) -> list[KernelCommand]:
        match op:
            case stream.TensorImportOp():
                source = self.places[op.source]
                self.places[op.result] = Place(source.role, source.index, 0, _constant(op.result_size))
            case stream.ResourceAllocaOp():
                self._allocate(op.result, _constant(op.storage_size))
            case stream.ResourceSubviewOp():
                base = self.places[op.source]
                offset = base.offset + _constant(op.source_offset)
                self.places[op.result] = Place(base.role, base.index, offset, _constant(op.result_size))
            case stream.TimepointAwaitOp():
                for result, resource in zip(op.results_, op.resource_operands, strict=True):
                    self.places[result] = self.places[resource]
            case stream.CmdExecuteOp():
                block = op.body.blocks[0]
                for argument, resource in zip(block.arguments, op.resource_operands, strict=True):
                    self.places[argument] = self._place(resource)
                return list(self._commands(block))
            case stream.TensorExportOp():
                self.places[op.result] = self.places[op.source]
            case util.ReturnOp():
                self._check_results(op)
            case _:
                if op.operation.name not in _SILENT:
                    raise self._refused(f"a {op.operation.name}")
        return []

    def _allocate(self, resource: Any, size: int) -> None:
        self.places[resource] = Place("scratch", 0, self.scratch, size)
        self.scratch += aligned(size)

    def _check_results(self, op: Any) -> None:
        for number, result in enumerate(op.operation.operands):
            place = self.places[result]
            if (place.role, place.index, place.offset) != ("write", number, 0):
                raise self._refused(f"result {number} in memory other than its own")

    def _commands(self, block: ir.Block) -> Iterator[KernelCommand]:
        for op in block.operations:
            match op:
                case stream.CmdDispatchOp():
                    yield self._dispatch(op)
                case stream.CmdFillOp():
                    yield Fill(_text(op.value), self._part(op.target, op.target_offset, op.target_length))
                case stream.CmdCopyOp():
                    source = self._part(op.source, op.source_offset, op.length)
                    yield Copy(source, self._part(op.target, op.target_offset, op.length))
                case stream.CmdConcurrentOp():
                    yield Group(tuple(self._commands(op.body.blocks[0])))
                case stream.YieldOp():
                    return
                case _:
                    raise self._refused(f"a {op.operation.name}")

    def _dispatch(self, op: Any) -> Dispatch:
        (entry,) = op.entry_points
        executable, name = entry.value
        canonical = self.canonical[executable]
        parts = zip(op.resource_accesses, op.resources, op.resource_offsets, op.resource_lengths, strict=True)
        bindings = tuple(
            Binding(self._access(entry, _DECLARED[access.value], done), self._part(resource, offset, length))
            for (access, resource, offset, length), done in zip(parts, self.accesses[executable], strict=True)
        )
        workload, scalars = tuple(map(_text, op.workload)), tuple(map(_text, op.uniform_operands))
        # Entries are called as their executable, and more.
        entry = f"{canonical}{name.removeprefix(executable)}"
        return Dispatch(canonical, entry, workload, scalars, bindings, self.ordered[executable])

    def _access(self, entry: Any, declared: str, done: str) -> Access:
        """A dispatch's access to a buffer, checked against its declaration."""
        if not set(done) <= set(declared):
            fact = f"{entry} accesses a buffer as '{done}' but declares '{declared}'"
            raise DmcError(f"kernel @{self.kernel}", fact, "please report the model")
        return _ACCESS[done]

    def _part(self, resource: Any, offset: Any, length: Any) -> Place:
        base = self._place(resource)
        return Place(base.role, base.index, base.offset + _constant(offset), _constant(length))

    def _place(self, resource: Any) -> Place:
        if resource not in self.places:
            raise self._refused("constants in memory that is initialised when the program is loaded")
        return self.places[resource]

    def _refused(self, what: str) -> CodegenError:
        hint = "form smaller kernels around it; kernels may have static shapes, small constants and no loops"
        fact = f"IREE compiles it to {what}, not only dispatches, fills and copies"
        return CodegenError(f"kernel @{self.kernel}", fact, hint, [self.kernel])


def _name(op: Any) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


def _text(value: Any) -> str:
    """A constant in MLIR syntax."""
    owner = value.owner
    assert isinstance(owner, arith.ConstantOp), f"{value} is not a constant"
    return str(owner.value)


def _constant(value: Any) -> int:
    return int(_text(value).split(" ")[0])
