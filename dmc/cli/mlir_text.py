"""MLIR text as a person or a program gives it, checked before MLIR's parser sees it."""

from __future__ import annotations

import re

import numpy as np

from dmc.errors import PipelineError

# MLIR's parser calls itself for each bracket, and ends the process where the stack ends: at 6,000 regions in regions.
MAX_NESTING = 1000
_BYTECODE = b"ML\xefR"
# What may hold brackets that open and close nothing.
_NO_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|>=|<=')
_OPEN, _CLOSE = (np.array([ord(each) for each in signs], np.uint32) for signs in ("([{<", ")]}>"))


def text_of(data: bytes, file: str) -> str:
    """The text in `data`, the content of `file`; MLIR's bytecode as far as it is text.

    Raises PipelineError, with the place, for bytes that are not UTF-8, and for brackets nested too deeply.
    """
    if data.startswith(_BYTECODE):
        return data.decode(errors="replace")
    if (wrong := _no_text(data)) is not None:
        fact = f"byte 0x{data[wrong]:02x} is not text in UTF-8"
        raise PipelineError(_place(file, data[:wrong].decode()), fact, "give a file with MLIR")
    text = data.decode()
    if (at := _too_deep(text)) is not None:
        fact = f"brackets are nested more than {MAX_NESTING:,} deep, more than MLIR's parser bears"
        raise PipelineError(_place(file, text[:at]), fact, "split the module")
    return text


def _no_text(data: bytes) -> int | None:
    """The index of the first byte that is not UTF-8, or zero, which ends the text for MLIR's parser."""
    zero = data.find(0)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start if zero < 0 else min(error.start, zero)
    return None if zero < 0 else zero


def _place(file: str, before: str) -> str:
    return f"{file}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _too_deep(text: str) -> int | None:
    """The index of the first bracket inside too many others."""
    bare = _NO_BRACKETS.sub(lambda found: " " * len(found[0]), text)
    signs = np.frombuffer(bare.encode("utf-32-le"), np.uint32)
    steps = np.isin(signs, _OPEN).astype(np.int32) - np.isin(signs, _CLOSE)
    level = np.cumsum(steps)
    # One that closes what was never open ends nothing.
    deep = level - np.minimum.accumulate(np.minimum(level, 0)) > MAX_NESTING
    return int(np.argmax(deep)) if deep.any() else None
