"""A two-layer MLP on two ranks in every form: the files in docs/walkthrough and the page that walks through them.

A form is a file of MLIR, and one as `dmc inspect --ir` prints it, of which the page shows parts. The page also
shows the plan of rank 0 as `dmc plan` prints it, under the name `plan`.

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
from dmc.printer import printed
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.reports.plan.lines import lines_of
from dmc.runtime.reports.plan.table import table
from dmc.runtime.reports.tables import as_text

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FORMS = DOCS / "walkthrough.md", DOCS / "walkthrough"
PLAN = "plan"
_WIDE = 250
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
    """The files of the forms: each as MLIR without locations, and as people read it."""
    texts: dict[str, str] = {}
    with ir.Context() as context:
        dialect.load(context)
        for name, text in artifact.ir.items():
            module = ir.Module.parse(text)
            texts |= {f"{name}.mlir": str(module), f"{name}.txt": printed(module)}
    return texts


def plan(artifact: Artifact) -> str:
    """What `dmc plan` prints of rank 0."""
    return as_text([table((str(line.number), line) for line in lines_of(artifact.job, 0))], _WIDE)


def page(template: str, texts: Mapping[str, str]) -> str:
    """`template` with what its excerpts name filled in. Raises ValueError where a form has no such lines."""

    def filled(match: re.Match[str]) -> str:
        name = match["form"] if match["form"] == PLAN else f"{match['form']}.txt"
        lines = _between(texts[name].splitlines(), match["first"], match["last"])
        # The columns of a plan begin with spaces that belong to them.
        shown = lines if name == PLAN else _dedented(lines)
        return "\n".join([match[0].partition("\n")[0], "```text", *shown, "```", ""])

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


def main() -> int:
    """Writes the forms and the page."""
    artifact = compiled()
    texts = forms(artifact)
    FORMS.mkdir(exist_ok=True)
    for stale in FORMS.iterdir():
        stale.unlink()
    for name, text in texts.items():
        (FORMS / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), {**texts, PLAN: plan(artifact)}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
