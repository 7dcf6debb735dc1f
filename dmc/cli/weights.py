"""`dmc weights FILE`: the tensors in a `.dmc` file or a checkpoint, as a table or as a safetensors file.

Nothing in the file is run, compiled or unpickled: it may be anybody's.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dmc.dtypes import describe, mlir_name
from dmc.errors import DmcError
from dmc.program.sizes import size_text
from dmc.runtime.reports.report import columns
from dmc.runtime.reports.tables import as_text, table
from dmc.runtime.state.saved_state import read_state
from dmc.runtime.tensors.arrays import are_zeros


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    text = "show or export the tensors in a file, running nothing"
    parser = commands.add_parser("weights", help=text, description=__doc__)
    parser.add_argument(
        "file", metavar="FILE", help="a .dmc file, a checkpoint (step-00000100), or a directory of checkpoints"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--bytes", action="store_true", help="print sizes in bytes")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the tensors to this .safetensors file")
    parser.add_argument(
        "--model",
        action="store_true",
        help="only parameters and buffers, under the names of the model's state_dict() in PyTorch",
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    saved = read_state(arguments.file)
    tensors = saved.state_dict()["model"] if arguments.model else saved.tensors
    if arguments.output:
        _export(tensors, saved.steps_done, Path(arguments.output))
    rows = [_row(name, array) for name, array in tensors.items()]
    report = {"file": str(arguments.file), "steps": saved.steps_done, "tensors": rows}
    print(json.dumps(report, indent=2) if arguments.json else _table(report, arguments.bytes))
    return 0


def _row(name: str, array: np.ndarray) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": mlir_name(array.dtype),
        "shape": list(array.shape),
        "bytes": array.nbytes,
        "zeros": are_zeros(array),
    }


def _table(report: dict[str, Any], exact: bool) -> str:
    made = table("tensor", "type", "size", words=["type"])
    rows = report["tensors"]
    for row in rows:
        kind = describe(row["dtype"], tuple(row["shape"]))
        made.add_row(row["name"], kind, size_text(row["bytes"], exact) + (", zeros" if row["zeros"] else ""))
    whole = size_text(sum(row["bytes"] for row in rows), exact)
    head = f"{report['file']}: {len(rows)} tensors, {whole}, after {report['steps']} steps"
    return as_text([head, made], columns())


def _export(tensors: Mapping[str, np.ndarray], steps: int, path: Path) -> None:
    """Writes a safetensors file, which replaces an old one when it is complete. Raises DmcError, or OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        # Memory of zeros is taken when it is written, and this only reads it.
        dense = {name: np.zeros(each.shape, each.dtype) if are_zeros(each) else each for name, each in tensors.items()}
        save_file(dense, temporary, {"format": "pt", "steps_done": str(steps)})
        os.replace(temporary, path)
    except (SafetensorError, MemoryError) as error:
        raise DmcError(str(path), f"cannot be written ({error})", hint="choose another place for it") from error
    finally:
        temporary.unlink(missing_ok=True)
