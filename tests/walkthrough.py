"""A two-layer MLP on two ranks in every form: the files in docs/walkthrough and the page that walks through them.

The page also shows the plan of rank 0 as `dmc plan` prints it, under the name `plan`.

`python -m tests.walkthrough` writes them again; `tests/exec/test_walkthrough.py` fails where they are stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.runtime.artifact import Artifact
from dmc.runtime.plan_lines import lines_of
from dmc.runtime.plan_table import table
from dmc.runtime.tables import as_text

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FORMS = DOCS / "walkthrough.md", DOCS / "walkthrough"
PLAN = "plan"
_WIDTH, _WIDE = 160, 250
# A line of the page that stands for IR, or for the plan: the form, where it begins, and where it ends.
_EXCERPT = re.compile(
    r"^<!-- (?P<form>\S+): (?P<first>.+?) \.\. (?P<last>.+?) -->\n(?:```\w+\n.*?\n```\n)?", re.MULTILINE | re.DOTALL
)


def compiled() -> Artifact:
    """The step that the page is about."""
    torch.manual_seed(0)
    mesh = dmc.Mesh(dp=2)
    return dmc.compile_artifact(
        nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 4, bias=False)),
        loss=nn.functional.mse_loss,
        optimizer=dmc.optim.SGD(lr=0.1),
        example=(torch.randn(4, 4), torch.randn(4, 4)),
        mesh=mesh,
        plan=dmc.plan(mesh).use(dmc.plans.data_parallel("dp")),
    )


def forms(artifact: Artifact) -> dict[str, str]:
    """Each form as people read it: without locations."""
    with ir.Context() as context:
        dialect.load(context)
        return {name: str(ir.Module.parse(text)) for name, text in artifact.ir.items()}


def plan(artifact: Artifact) -> str:
    """What `dmc plan` prints of rank 0."""
    return as_text([table((str(line.number), line) for line in lines_of(artifact.job, 0))], _WIDE)


def page(template: str, texts: Mapping[str, str]) -> str:
    """`template` with what its excerpts name filled in. Raises ValueError where a form has no such lines."""

    def filled(match: re.Match[str]) -> str:
        lines = _between(texts[match["form"]].splitlines(), match["first"], match["last"])
        comment, is_plan = match[0].partition("\n")[0], match["form"] == PLAN
        shown = lines if is_plan else list(map(_cut, _dedented(lines)))
        return f"{comment}\n```{'text' if is_plan else 'mlir'}\n" + "\n".join(shown) + "\n```\n"

    return _EXCERPT.sub(filled, template)


def _between(lines: list[str], first: str, last: str) -> list[str]:
    """From the first line that holds `first` to the next that holds `last`, both included."""
    begin = next((i for i, line in enumerate(lines) if first in line), None)
    if begin is None:
        raise ValueError(f"no line holds {first!r}")
    end = next((i for i in range(begin, len(lines)) if last in lines[i]), None)
    if end is None:
        raise ValueError(f"no line behind {first!r} holds {last!r}")
    return lines[begin : end + 1]


def _dedented(lines: list[str]) -> list[str]:
    """The lines with the first one's indentation taken off each that has it."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]} …"


def main() -> int:
    """Writes the forms and the page."""
    artifact = compiled()
    texts = forms(artifact)
    FORMS.mkdir(exist_ok=True)
    for stale in FORMS.glob("*.mlir"):
        stale.unlink()
    for name, text in texts.items():
        (FORMS / f"{name}.mlir").write_text(text, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), {**texts, PLAN: plan(artifact)}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
