"""The layout of dmc: no import cycles; small folders, each with an index; passes under the form that they lead to.

An index is the list `* name: what it is` in the docstring of a folder: its files and folders in reading order.
"""

from __future__ import annotations

import ast
import functools
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from dmc.passes.base import REGISTRY, Element, On, Pass, Step
from dmc.pipeline import STAGES, Stage

ROOT = Path(__file__).resolve().parents[1]
# The packages whose folders follow the pipeline, and what a folder of them holds at most.
STRUCTURED = (
    "dmc.passes",
    "dmc.analysis",
    "dmc.importer",
    "dmc.printer",
    "dmc.rewriting",
    "dmc.lowering",
    "dmc.runtime",
)
MAX_ENTRIES = 20
# Folders that hold passes only, or groups of them.
GROUPS = ("dmc.passes.scheduled.tensors",)
FORMS = (*(f"dmc.passes.{name}" for name in ("placed", "scheduled", "planned", "any")), *GROUPS)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _last(module: str) -> str:
    return module.rpartition(".")[2]


MODULES = {_module(path): path for path in sorted((ROOT / "dmc").rglob("*.py"))}
PACKAGES = [module for module, path in MODULES.items() if path.stem == "__init__"]
FOLDERS = [package for package in PACKAGES if package.startswith(STRUCTURED)]
PASSES = {cls.__module__: cls for cls in REGISTRY.values() if cls.__module__.startswith("dmc.")}
# A pass with helpers is a folder of its name; the pass stands in front, `bucket/bucket.py`.
PASS_FOLDERS = [folder for folder in FOLDERS if f"{folder}.{_last(folder)}" in PASSES]


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def _imported(module: str) -> Iterator[str]:
    """The modules of dmc that a module imports, wherever the statement stands."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in names)


@functools.cache
def _imports() -> dict[str, set[str]]:
    """What each module imports. `dmc` itself is left out: it imports what it offers to users on first use."""
    return {module: set(_imported(module)) - {"dmc"} for module in MODULES if module != "dmc"}


def _entry(folder: str, module: str) -> str | None:
    """The file or folder of `folder` that a module is, or is in; None for a module elsewhere."""
    if module == folder:
        return "__init__"
    return module.removeprefix(f"{folder}.").partition(".")[0] if module.startswith(f"{folder}.") else None


def _entries(folder: str) -> set[str]:
    return {entry for module in MODULES if (entry := _entry(folder, module)) not in (None, "__init__")}


def _index(folder: str) -> list[str]:
    return re.findall(r"^\* (\w+): ", ast.get_docstring(_tree(folder)) or "", re.MULTILINE)


@pytest.mark.parametrize("folder", PACKAGES)
def test_there_is_no_import_cycle_among_files_or_folders(folder: str) -> None:
    graph: dict[str, set[str]] = {}
    for module, imported in _imports().items():
        if (user := _entry(folder, module)) is not None:
            used = {entry for each in imported if (entry := _entry(folder, each)) is not None}
            graph[user] = graph.get(user, set()) | used - {user}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"in {folder}: {' is imported by '.join(error.args[1])}")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_small_and_its_index_complete(folder: str) -> None:
    assert len(_entries(folder)) <= MAX_ENTRIES, "move those that belong together into a folder"
    assert sorted(_index(folder)) == sorted(_entries(folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_file_names_need_no_prefix(folder: str) -> None:
    names = [name for name in _entries(folder) if f"{folder}.{name}" not in {*PASSES, *PASS_FOLDERS}]
    assert [name for name in names if name.startswith("_")] == []
    first = Counter(name.partition("_")[0] for name in names if "_" in name)
    assert [word for word, count in first.items() if count > 1] == []
    assert [name for name in names if name.startswith(f"{_last(folder)}_")] == []


@pytest.mark.parametrize("module", PASSES)
def test_a_pass_has_one_stem_in_four_places(module: str) -> None:
    # The file of a reserved word ends in an underscore: `async_.py`.
    stem = _last(module)[:-1] if keyword.iskeyword(_last(module)[:-1]) else _last(module)
    own = [node.name for node in _tree(module).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert own == [PASSES[module].__name__] == ["".join(word.capitalize() for word in stem.split("_"))]
    assert PASSES[module].name == f"dm-{stem.replace('_', '-')}"
    assert PASSES[module].summary().endswith("."), "the first line of the docstring is a sentence"
    assert PASSES[module].name in (ROOT / "tests" / "passes" / f"{stem}.mlir").read_text(encoding="utf-8")


def test_passes_stand_under_the_form_that_they_lead_to() -> None:
    for stage in STAGES:
        for each in stage.passes:
            if isinstance(step := _step(each), Pass):
                assert type(step).__module__.startswith(f"dmc.passes.{stage.form.name}."), step.name


@pytest.mark.parametrize("stage", STAGES[1:], ids=lambda stage: stage.form.name)
def test_the_index_of_a_form_lists_its_passes_in_the_order_in_which_they_run(stage: Stage) -> None:
    run = dict.fromkeys(_last(type(each).__module__) for each in map(_step, stage.passes) if isinstance(each, Pass))
    assert [name for name in _passes_of(f"dmc.passes.{stage.form.name}") if name in run] == list(run)


def _step(element: Element) -> Step:
    return element.step if isinstance(element, On) else element


def _passes_of(form: str) -> Iterator[str]:
    """The index of a form's folder, with those of its groups."""
    for name in _index(form):
        yield from _passes_of(f"{form}.{name}") if f"{form}.{name}" in GROUPS else (name,)


@pytest.mark.parametrize("form", FORMS)
def test_the_folder_of_a_form_holds_passes_only(form: str) -> None:
    assert [name for name in _entries(form) if f"{form}.{name}" not in {*PASSES, *PASS_FOLDERS, *GROUPS}] == []


@pytest.mark.parametrize("folder", PASS_FOLDERS)
def test_the_helpers_of_a_pass_are_imported_by_it_alone(folder: str) -> None:
    inside = f"{folder}."
    assert sum(module.startswith(inside) for module in PASSES) == 1
    others = [module for module in _imports() if not module.startswith(inside) and module != folder]
    assert [module for module in others if any(each.startswith(inside) for each in _imports()[module])] == []
