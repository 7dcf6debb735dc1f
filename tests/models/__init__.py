"""The models that the tests and benchmarks train: small, from configuration classes, with random weights.

One file per model, each with `build(dropout) -> Case`. Files are imported on demand: `transformers` is slow to import.
"""

from __future__ import annotations

import importlib

from tests.models.case import Case

NAMES = (
    "gpt2",
    "llama",
    "bert",
    "roberta",
    "t5",
    "vit",
    "resnet",
    "lstm",
    "gru",
    "moe",
    "demo_gpt",
)


def build(name: str, dropout: float) -> Case:
    """The case `name` (one of `NAMES`, or "bert_small" or "gpt2_wide") with its own dropout layers set to `dropout`."""
    return importlib.import_module(f"tests.models.{name}").build(dropout)
