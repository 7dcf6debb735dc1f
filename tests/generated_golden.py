"""The sources of three generated regions, as files that a reader can look at: tests/generated/*.golden.

`python -m tests.generated_golden` writes them anew.
"""

from __future__ import annotations

from dmc import dialect
from dmc._mlir import ir
from dmc.kernels.generated import generate
from tests.generated_regions import FOLDER, regions_of, shaped

SIZES: dict[str, dict[str, int | str]] = {
    "rows": {"r": 1024, "c": 768, "n": 2048},
    "columns": {"r": 16384, "c": 768},
    "product": {"m": 16384, "n": 3072, "k": 768, "type": "bf16"},
}


def source(name: str) -> str:
    """The sources of the launches of a region's first recipe."""
    module = shaped(name, **SIZES[name])
    return "\n\n".join(call.source for call in generate(regions_of(module)["region"]).recipes[0].calls)


def main() -> None:
    """Writes the files."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        for name in SIZES:
            (FOLDER / f"{name}.golden").write_text(source(name), encoding="utf-8")


if __name__ == "__main__":
    main()
