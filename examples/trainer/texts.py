"""Texts that need no network, and a tokenizer for them: lines of Python's own library, word by word."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

_SPECIAL = ("[PAD]", "[UNK]", "[MASK]", "[CLS]", "[SEP]")


def lines(count: int) -> list[str]:
    """Lines of code of at least three words."""
    source = Path(torch.__file__).with_name("functional.py").read_text()
    return [line for line in source.splitlines() if len(re.findall(r"\w+", line)) >= 3][:count]


def tokenizer(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """Of the `size` most frequent words."""
    words = [word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)]
    frequent = sorted(set(words), key=lambda word: (-words.count(word), word))[: size - len(_SPECIAL)]
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *frequent))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = zip(("pad", "unk", "mask", "cls", "sep"), _SPECIAL, strict=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, **{f"{name}_token": word for name, word in names})
