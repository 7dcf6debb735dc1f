"""Names that modules import from each other exist, also where nothing but a GPU would run the import.

pyright cannot say so: its report of unknown attributes is off, since MLIR's bindings resolve at run time only.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dmc", "tests", "bench", "examples", "tools")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _file_of(module: str) -> Path | None:
    stem = ROOT.joinpath(*module.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.exists()), None)


@functools.cache
def _defined(path: Path) -> frozenset[str]:
    """The names that a module binds outside of functions and classes."""
    return frozenset(name for node in _outside(_tree(path)) for name in _bound(node))


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _outside(child)


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.alias():
            yield (node.asname or node.name).split(".")[0]
        case _:
            return


def _missing(path: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] not in PACKAGES:
            continue
        module = node.module or ""
        source = _file_of(module)
        if source is None:
            is_folder = ROOT.joinpath(*module.split(".")).is_dir()
            known = frozenset[str]()
            yield from [] if is_folder else [f"line {node.lineno}: no module {module}"]
        else:
            known = _defined(source)
        for name in (alias.name for alias in node.names):
            # Modules with `__getattr__` find some of their names when they are asked for.
            if name != "*" and not known & {name, "__getattr__"} and _file_of(f"{module}.{name}") is None:
                yield f"line {node.lineno}: {module} has no {name}"


def test_imported_names_exist() -> None:
    """Names, or modules, of the project's own packages."""
    missing = [f"{path.relative_to(ROOT)}, {fact}" for path in FILES for fact in _missing(path)]
    assert not missing, "\n".join(missing)
