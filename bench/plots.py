"""The plots of `docs/performance.md`: `python -m bench.plots` draws `docs/performance/*.svg` from `bench/results`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs" / "performance"
_OURS, _OTHERS = "#2a6f97", "#c0c5ce"
_SYSTEMS = {
    "dmc": "dmc",
    "hand": "PyTorch by hand",
    "xla": "JAX by hand",
    "compile": "torch.compile",
    "eager": "PyTorch eager",
}
_COLORS = {"dmc": _OURS, "hand": "#8d99ae", "xla": "#b7a99a", "compile": "#adb5c3", "eager": "#d3d8e0"}
_MODELS = {
    "gpt2_124m": "GPT-2 124M",
    "gpt2_355m": "GPT-2 355M",
    "bert_large": "BERT-large",
    "vit_b": "ViT-B/16",
    "llama_1b": "Llama 1.1B",
}
_MOST_KERNELS = 14
_STYLE: dict[Any, Any] = {"svg.hashsalt": "dmc", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def results(name: str) -> list[dict[str, Any]]:
    """The results in a file."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["results"]


def steps() -> Figure:
    """Milliseconds of a step on one GPU by model and system, of the last run of each."""
    found = {(r["model"], r["system"]): r["step_ms"] for r in results("gpu_step") if _is_as_trained(r)}
    figure, (ax,) = _figure(1, "ms a step")
    height = 0.8 / len(_SYSTEMS)
    for number, (system, name) in enumerate(_SYSTEMS.items()):
        rows = [(place + number * height, found.get((model, system))) for place, model in enumerate(_MODELS)]
        shown = [(place, ms) for place, ms in rows if ms is not None]
        made = ax.barh(*zip(*shown, strict=True), height=0.9 * height, color=_COLORS[system], label=name)
        ax.bar_label(made, fmt="%.1f", padding=3, fontsize=7)
    ax.set_yticks([place + 2 * height for place in range(len(_MODELS))], _MODELS.values())
    ax.invert_yaxis()
    ax.legend(frameon=False)
    ax.set_title("A training step on one H200")
    return figure


def _is_as_trained(result: dict[str, Any]) -> bool:
    """Whether a model of the table is measured with the dropout that it is trained with."""
    return result["model"] in _MODELS and (result["dropout"] > 0) == (result["model"] != "llama_1b")


def kernels() -> Figure:
    """What the kernels of a step take, and the least that they could take."""
    path = RESULTS / "gpu_profile_h200.json"
    found = json.loads(path.read_text(encoding="utf-8"))["models"]["gpt2_124m_dropout"]["results"]
    rows = sorted(found, key=lambda row: -row["us"])[:_MOST_KERNELS]
    figure, (ax,) = _figure(1, "ms in a step")
    places = [(row["kernel"].rpartition("_")[0], row["label"].removeprefix("transformer.")) for row in rows]
    names = [name if label.startswith("#") else f"{name}: {label}" for name, label in places]
    ax.barh(range(len(rows)), [row["us"] / 1e3 for row in rows], color=_OTHERS, label="measured")
    ax.barh(range(len(rows)), [row["floor_us"] / 1e3 for row in rows], color=_OURS, height=0.4, label="least")
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.legend(frameon=False)
    figure.suptitle("GPT-2 124M with dropout on one H200: the longest kernels")
    return figure


def scaling() -> Figure:
    """Milliseconds of a step with as many samples per GPU on 1, 2 and 4 GPUs of one machine."""
    figure, (ax,) = _figure(1, "GPUs")
    found = [each for each in results("multi_gpu_four") if each["batch_per_rank"] == 16]
    for label, system, plan, color, line in (
        ("dmc, data parallel", "dmc", "dp", _OURS, "--"),
        ("dmc, ZeRO-2", "dmc", "zero2", _OURS, "-"),
        ("DDP + torch.compile", "ddp", "dp", _OTHERS, "--"),
        ("FSDP2 + torch.compile", "fsdp2", "zero3", _OTHERS, "-"),
    ):
        points = sorted(
            (r["ranks"], r["step_ms"]) for r in found if r["system"] == system and r["plan"] in ("alone", plan)
        )
        marker = "s" if plan == "zero3" else "o"
        ax.plot(*zip(*points, strict=True), marker=marker, color=color, linestyle=line, label=label)
    ax.set_ylabel("ms a step")
    ax.set_ylim(0)
    ax.set_xticks([1, 2, 4])
    ax.legend(frameon=False)
    ax.set_title("GPT-2 124M on H200s, 16 × 1024 tokens per GPU")
    return figure


def prediction() -> Figure:
    """Predicted beside measured steps."""
    rows = results("gpu_prediction")
    figure, (ax,) = _figure(1, "ms a step")
    names = [f"{row['model']}, {row['ranks']} × {row['device'].removeprefix('NVIDIA ').split()[0]}" for row in rows]
    for offset, key, color in ((-0.2, "predicted_ms", _OURS), (0.2, "measured_ms", _OTHERS)):
        places = [index + offset for index in range(len(rows))]
        ax.barh(places, [row[key] for row in rows], height=0.38, color=color, label=key.removesuffix("_ms"))
    for index, row in enumerate(rows):
        end = max(row["predicted_ms"], row["measured_ms"])
        ax.annotate(f"{row['error']:+.1%}", (end, index), xytext=(4, -3), textcoords="offset points")
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    ax.set_title("Steps, predicted and measured")
    return figure


PLOTS: tuple[Callable[[], Figure], ...] = (steps, kernels, scaling, prediction)


def main() -> None:
    """Draws all."""
    DOCS.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):
        for draw in PLOTS:
            draw().savefig(DOCS / f"{draw.__name__}.svg", metadata={"Date": None})


def _figure(count: int, label: str) -> tuple[Figure, Sequence[Any]]:
    figure = Figure(figsize=(8.5, 3.2 if count > 1 else 4), layout="constrained")
    axes = list(_axes(figure, count))
    for ax in axes:
        ax.set_xlabel(label)
    return figure, axes


def _axes(figure: Figure, count: int) -> Iterator[Any]:
    for place in range(count):
        yield figure.add_subplot(1, count, place + 1)


if __name__ == "__main__":
    main()
