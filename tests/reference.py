"""The reference of the API, made from docstrings: docs/reference.md.

`python -m tests.reference` writes it; `tests/unit/test_api_reference.py` fails where it is stale.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from dmc import api, errors, mesh, observer, optim, phases, plans, runtime
from dmc.compiled_step import CompiledPhase, CompiledStep
from dmc.plans import builder
from dmc.runtime.checkpoints import Checkpoints
from dmc.runtime.outputs import LazyArray, Loss
from dmc.runtime.state.dictionaries import StateDict
from tests.markdown import DOCS

PAGE = DOCS / "reference.md"
_WIDTH = 100
_HEAD = """\
# API reference

<!-- Made by `python -m tests.reference` from the docstrings; do not edit. -->

What `dmc` offers to users. Its names are imported on first use: `import dmc` alone loads neither PyTorch nor a
compiler. Sizes are in bytes, and tensors are written as their element type and shape, `f32[rows, columns]`."""
_OPTIMIZERS = [
    kind
    for kind in (getattr(optim, name) for name in sorted(optim.__all__))
    if inspect.isclass(kind) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
]
# By heading: objects under the names that users write.
SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "Compile and load": {
        "dmc.compile": api.compile,
        "dmc.Phase": phases.Phase,
        "dmc.compile_artifact": api.compile_artifact,
        "dmc.load": api.load,
        "dmc.runtime.load": runtime.load,
    },
    "A compiled step": {
        "CompiledStep": CompiledStep,
        "CompiledPhase": CompiledPhase,
        "StateDict": StateDict,
        "LazyArray": LazyArray,
        "Loss": Loss,
        "Ledger": runtime.Ledger,
        "dmc.runtime.Artifact": runtime.Artifact,
        "dmc.Checkpoints": Checkpoints,
    },
    "Optimizers": {
        f"dmc.optim.{each.__name__}": each
        for each in (
            optim.Optimizer,
            *_OPTIMIZERS,
            optim.Group,
            optim.FromTorch,
        )
    },
    "Meshes and plans": {
        "dmc.Mesh": mesh.Mesh,
        "dmc.plan": builder.plan,
        "Recipe": plans.Recipe,
        "dmc.plans.recipe": plans.recipe,
        **{f"dmc.plans.{name}": way for name, way in plans.READY.items()},
    },
    "Progress": {"dmc.observer.Observer": observer.Observer},
    "Errors": {
        f"dmc.errors.{name}": each
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.DmcError)
    },
}


_LISTED = [entry for entries in SECTIONS.values() for entry in entries.values()]


def page() -> str:
    """The whole reference."""
    return (
        "\n\n".join([_HEAD, *(part for title, entries in SECTIONS.items() for part in _section(title, entries))]) + "\n"
    )


def _section(title: str, entries: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}"
    for name, entry in entries.items():
        yield from _entry(f"### `{name}`", name, entry)
        # What optimizers are made of beside their options is for those who add one.
        has_members = inspect.isclass(entry) and not issubclass(entry, optim.Optimizer | optim.Group)
        for member, own in _members(entry) if has_members else ():
            yield from _entry(f"#### `{name.rpartition('.')[2]}.{member}`", member, own)


def _entry(heading: str, name: str, entry: Any) -> Iterator[str]:
    yield heading
    if signature := _signature(name, entry):
        yield f"```python\n{signature}\n```"
    yield _text(entry)


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with docstrings, bases first, but for those of a base that has its own entry."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        is_told = base is not owner and base in _LISTED
        own = vars(base).items() if base.__module__.startswith("dmc.") and not is_told else ()
        found |= {name: each for name, each in own if not name.startswith("_") or name == "__call__"}
    for name, each in found.items():
        function = each.__func__ if isinstance(each, staticmethod | classmethod) else each
        if isinstance(function, property) or (inspect.isfunction(function) and inspect.getdoc(function)):
            yield name, function


def _signature(name: str, entry: Any) -> str:
    """As in source; empty for classes that users do not call."""
    if isinstance(entry, property):
        return f"{name}: {inspect.signature(entry.fget).return_annotation}" if entry.fget else name
    if inspect.isclass(entry) and not _is_made(entry):
        return ""
    signature = inspect.signature(entry)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown, kinds = [_parameter(each) for each in parameters], [each.kind for each in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = signature.return_annotation
    end = "" if inspect.isclass(entry) or returned is inspect.Signature.empty else f" -> {returned}"
    line = f"{'step' if name == '__call__' else name}({', '.join(shown)}){end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([line.partition("(")[0] + "(", *(f"    {each}," for each in shown), f"){end}"])


def _is_made(entry: type) -> bool:
    """Whether users make objects of a class by calling it."""
    return entry in (Checkpoints, mesh.Mesh, phases.Phase) or entry.__module__.startswith(optim.__name__)


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    shown = f"{stars}{parameter.name}"
    if parameter.annotation is not inspect.Parameter.empty:
        shown += f": {parameter.annotation}"
    if parameter.default is inspect.Parameter.empty:
        return shown
    return f"{shown} = {parameter.default!r}".replace("'", '"')


def _text(entry: Any) -> str:
    """The docstring as Markdown: what it says about parameters or fields becomes a list."""
    names = _described(entry)
    paragraphs = (inspect.getdoc(entry) or "").split("\n\n")
    if inspect.isclass(entry) and _is_made(entry) and "__init__" in vars(entry) and not dataclasses.is_dataclass(entry):
        paragraphs += (inspect.getdoc(entry.__init__) or "").split("\n\n")
    return "\n\n".join(_paragraph(each, names) for each in paragraphs)


def _described(entry: Any) -> set[str]:
    if inspect.isclass(entry):
        fields = {name for base in entry.__mro__ for name in vars(base).get("__annotations__", ())}
        return fields | ({*inspect.signature(entry).parameters} if _is_made(entry) else set())
    return set() if isinstance(entry, property) else {*inspect.signature(entry).parameters}


def _paragraph(text: str, names: set[str]) -> str:
    """`name: what it is. other: …` becomes one item each; what it raises, a paragraph of its own."""
    if text.startswith("    "):
        return f"```python\n{textwrap.dedent(text)}\n```"
    begins = rf"(?:{'|'.join(sorted(names))}):\s" if names else r"(?!)"
    parts = re.split(rf"(?:^|(?<=[.)?])\s+)(?={begins}|Raises )", text, flags=re.MULTILINE)
    shown = ""
    for part in (" ".join(each.split()) for each in parts if each.strip()):
        is_item = re.match(begins, part) is not None
        shown += ("\n" if is_item and shown.rpartition("\n")[2].startswith("* ") else "\n\n") if shown else ""
        shown += f"* **{part.partition(':')[0]}**:{part.partition(':')[2]}" if is_item else part
    return shown


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
