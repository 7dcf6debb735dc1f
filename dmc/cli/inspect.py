"""`dmc inspect step.dmc`: a compiled step's signature, state and contents."""

from __future__ import annotations

import argparse
import json
import math
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dmc.cli.ops import count_composites, count_ops
from dmc.cli.programs import add_option
from dmc.dtypes import byte_count, describe
from dmc.errors import DmcError
from dmc.program.categories import CATEGORIES
from dmc.program.rank_memory import RankMemory, memories_of
from dmc.program.signature import Signature, StateSpec, TensorSpec, Tree
from dmc.program.sizes import size_text
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.tensors.tree import unflatten

_TOP_OPS = 8
_TOP_RANKS = 8


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("inspect", help="show the contents of a .dmc file", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file, of any IREE version")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--ir", metavar="FORM", help="print the IR of a form, such as scheduled, for people")
    add_option(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises ArtifactError, and DmcError for a form that the file does not have."""
    whole = Artifact.read(arguments.file, to_run=False)
    if arguments.ir is not None:
        print(_form(whole.program(arguments.program, str(arguments.file)), arguments), end="")
        return 0
    file = {"file": str(arguments.file), "file_bytes": os.path.getsize(arguments.file), "programs": whole.names}
    report = {**file, **describe_artifact(whole.program(arguments.program, str(arguments.file)))}
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(_lines(report)))
    return 0


def _form(artifact: Artifact, arguments: argparse.Namespace) -> str:
    named = {stem.partition("-")[2]: text for stem, text in artifact.ir.items()}
    if arguments.ir not in named:
        raise DmcError(arguments.file, f"has no form '{arguments.ir}'", f"its forms are {', '.join(named)}")
    # MLIR takes a while to load, and is not there where steps only run.
    from dmc.cli.mlir_source import for_people

    return for_people(named[arguments.ir])


def describe_artifact(artifact: Artifact) -> dict[str, Any]:
    """The report as JSON values; sizes are in bytes.

    mesh: axis to size, or None; for a mesh, "rank_bytes" is the memory of one rank, that with the largest arena, and
    tensors say how they are split, and which ranks have them where not all do.
    The device "arena" holds the state, and shares the rest among all values of the step; gradients and activations are
    the peak of each. certificate: what was proven about the plan.
    """
    signature = artifact.signature
    whole, rank = _memory(artifact)
    return {
        "target": artifact.target,
        "precision": artifact.precision,
        "requires": list(artifact.requires),
        "versions": dict(artifact.versions),
        "call": _call(artifact),
        "mesh": signature.mesh,
        "inputs": _tensors(signature.batch, signature),
        "outputs": _tensors(signature.outputs, signature),
        "learning_rates": list(signature.learning_rates) if signature.controls else [],
        "bytes": whole,
        "rank_bytes": rank,
        "parameters": sum(_elements(spec) for spec in signature.state if spec.role in ("parameter", "frozen")),
        "state": _tensors(signature.state, signature),
        "unset": sorted(artifact.unset),
        "modules": {name: len(data) for name, data in artifact.modules.items()},
        "forms": {
            name: {"ops": count_ops(text), "composites": count_composites(text)} for name, text in artifact.ir.items()
        },
        "statistics": dict(artifact.statistics),
        "certificate": msgspec.to_builtins(artifact.certificate),
    }


def _memory(artifact: Artifact) -> tuple[dict[str, int], dict[str, int] | None]:
    """The memory in total, and, for a mesh, of one rank."""
    signature, parts = artifact.signature, Ranks(artifact.signature)
    ranks = memories_of(artifact.job)
    whole = _bytes(signature.state, [memory for memory in ranks for _ in memory.ranks])
    if signature.mesh is None:
        return whole, None
    fullest = max(ranks, key=lambda memory: memory.arena)
    return whole, _bytes([parts.local(spec, fullest.ranks[0]) for spec in signature.state], [fullest])


def _bytes(state: Sequence[StateSpec], ranks: Sequence[RankMemory]) -> dict[str, int]:
    """Bytes of the state, of the peaks of live gradients and activations of `ranks`, each at its own time, and of their
    arenas.
    """

    def total(*roles: str) -> int:
        return sum(byte_count(spec) for spec in state if spec.role in roles)

    most = {CATEGORIES[name]: sum(memory.most[name] for memory in ranks) for name in ("gradient", "activation")}
    return {
        "weights": total("parameter", "frozen"),
        "optimizer state": total("optimizer"),
        "buffers": total("buffer", "counter", "seed"),
        **most,
        "arena": sum(memory.arena for memory in ranks),
    }


def _call(artifact: Artifact) -> str:
    signature = artifact.signature
    names = [spec.name for spec in signature.batch]
    inputs = [_nested(tree, names) for tree in signature.args["tuple"]]
    inputs += [f"{key}={_nested(tree, names)}" for key, tree in signature.kwargs["dict"].items()]
    aux = "" if signature.aux is None else ", " + _nested(signature.aux, _aux(signature))
    # An evaluation takes no learning rates.
    phase = f".phases['{signature.phase}']" if signature.phase else ""
    return f"step{phase if signature.controls else '.evaluate'}({', '.join(inputs)}) -> loss{aux}"


def _aux(signature: Signature) -> list[str]:
    return [spec.name for spec in signature.outputs if spec.name not in ("loss", "finite")]


class _Name(str):
    """A tensor's name, printed bare among the constants around it."""

    def __repr__(self) -> str:
        return str(self)


def _nested(tree: Tree, names: Sequence[str]) -> str:
    return repr(unflatten(tree, [_Name(name) for name in names]))


def _tensors(specs: Sequence[TensorSpec], signature: Signature) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for spec in specs:
        row: dict[str, Any] = {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
        if signature.mesh is not None:
            row["splits"] = [[list(use) for use in uses] for uses in signature.splits_of(spec)]
        if spec.name in signature.holders:
            row["ranks"] = list(signature.holders[spec.name])
        if isinstance(spec, StateSpec):
            row |= {"role": spec.role, "mutated": spec.mutated, "aliases": list(spec.aliases)}
        rows.append(row)
    return rows


def _elements(spec: TensorSpec) -> int:
    return byte_count(spec) // byte_count(TensorSpec(spec.name, spec.dtype, ()))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{report['file']}  {size_text(report['file_bytes'])}"
    if len(report["programs"]) > 1:
        yield f"programs {', '.join(report['programs'])}"
    yield f"target {report['target']}, precision {report['precision']}"
    if report["requires"]:
        yield _wrapped("runs on ", report["requires"])
    if report["mesh"] is not None:
        axes = ", ".join(f"{axis}={size}" for axis, size in report["mesh"].items())
        yield f"mesh {axes}: {math.prod(report['mesh'].values())} ranks in one process"
    yield "made by " + ", ".join(f"{tool} {version}" for tool, version in report["versions"].items())
    yield from _proven(report["certificate"])
    yield f"\n{report['call']}"
    yield from _tensor_lines("inputs", report["inputs"])
    yield from _tensor_lines("outputs", report["outputs"])
    if rates := report["learning_rates"]:
        yield f"learning rates: {', '.join(f'{rate:g}' for rate in rates)}"
    yield f"\nmemory  ({report['parameters']:,} parameters, {len(report['state'])} state tensors)"
    yield from _memory_lines(report["bytes"], report["rank_bytes"])
    if report["unset"]:
        yield f"  without weights: {len(report['unset'])} state tensors have no numbers yet (dmc run --weights)"
    yield from (f"  {f'code, {name}':<28} {size_text(size):>12}" for name, size in report["modules"].items())
    for form, counts in report["forms"].items():
        yield from _form_lines(form, counts)


def _proven(certificate: dict[str, Any]) -> Iterator[str]:
    """`proven of plan 1f2e3d4c5b6a by costs 0a1b2c3d4e5f, device memory at most 1.05 MB:`, then each property."""
    costs = f" by costs {certificate['cost_table'][:12]}" if certificate["cost_table"] else ""
    caps = "".join(f", {space} memory at most {size_text(cap)}" for space, cap in certificate["caps"].items())
    yield f"proven of plan {certificate['digest'][:12]}{costs}{caps}:"
    for name, statement in certificate["properties"].items():
        yield textwrap.fill(f"  {name:<4} {statement}", 120, subsequent_indent=" " * 7)


def _memory_lines(whole: dict[str, int], rank: dict[str, int] | None) -> Iterator[str]:
    if rank is None:
        yield from (f"  {name:<28} {size_text(size):>12}" for name, size in whole.items())
        return
    yield f"  {'':<28} {'whole':>12} {'one rank':>12}"
    yield from (f"  {name:<28} {size_text(size):>12} {size_text(rank[name]):>12}" for name, size in whole.items())


def _tensor_lines(title: str, tensors: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{title}:"
    for tensor in tensors:
        kind = describe(tensor["dtype"], tuple(tensor["shape"]))
        yield f"  {tensor['name']:<28} {kind}{_split(tensor.get('splits', []))}{_holders(tensor.get('ranks'))}"


def _split(splits: list[list[tuple[str, int]]]) -> str:
    """`, split [dp, 3×tp]`, or nothing where every rank has the whole."""
    words = [" ".join(axis if blocks == 1 else f"{blocks}×{axis}" for axis, blocks in uses) or "-" for uses in splits]
    return f", split [{', '.join(words)}]" if any(splits) else ""


def _holders(ranks: list[int] | None) -> str:
    """`, on ranks 0, 2`, or nothing where every rank has it."""
    if not ranks:
        return "" if ranks is None else ", on no rank"
    shown = ", ".join(map(str, ranks[:_TOP_RANKS])) + (f", … ({len(ranks)})" if ranks[_TOP_RANKS:] else "")
    return f", on rank{'s' if len(ranks) > 1 else ''} {shown}"


def _form_lines(form: str, counts: dict[str, dict[str, int]]) -> Iterator[str]:
    ops = list(counts["ops"].items())
    yield f"\n{form}: {sum(counts['ops'].values()):,} operations"
    yield from (f"  {name:<28} {count:>12,}" for name, count in ops[:_TOP_OPS])
    if rest := ops[_TOP_OPS:]:
        yield f"  {f'{len(rest)} others':<28} {sum(count for _, count in rest):>12,}"
    if counts["composites"]:
        yield "  composites: " + ", ".join(f"{kind} {count}" for kind, count in counts["composites"].items())


def _wrapped(title: str, words: list[str]) -> str:
    return textwrap.fill(title + ", ".join(words), 100, subsequent_indent="  ", break_on_hyphens=False)
