"""GPT-2 whose weights are large enough for what is done with large tensors only, such as copies between GPUs."""

from __future__ import annotations

from tests.models import gpt2
from tests.models.case import Case


def build(dropout: float) -> Case:
    """Two layers of width 512, 4,096 words, the same batches as `gpt2`."""
    return gpt2.build(dropout, width=512, words=4096)
