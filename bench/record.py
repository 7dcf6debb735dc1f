"""What every result says of how it was made."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dmc

PACKAGES = ("torch", "torch-mlir", "iree-base-compiler", "iree-base-runtime", "transformers", "highspy")


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Writes `record` as JSON, after the date, the command and the versions of what is installed."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    # Records do not reveal where a machine keeps its files.
    arguments = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    head = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", module.name if module else sys.argv[0], *arguments]),
        "versions": {"python": platform.python_version(), **_versions()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, **record}, indent=1) + "\n", encoding="utf-8")


def _versions() -> dict[str, str]:
    installed = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return {**{name: installed[name] for name in PACKAGES if name in installed}, "dmc": dmc.__version__}
