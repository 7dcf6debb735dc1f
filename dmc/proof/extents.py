"""V3 for bytes: tensors have a size, ranges are inside their arenas, and names are declared once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dmc.errors import DmcError, ProofError
from dmc.program import Program, Range
from dmc.program.sizes import tensor_bytes
from dmc.proof.story import told


def bytes_of(place: str, dtype: str, shape: Sequence[int]) -> int:
    """The bytes of a tensor of static shape. Raises ProofError for a type or a shape without a size."""
    if any(size < 0 for size in shape):
        raise ProofError("V3", place, f"has a tensor of shape {list(shape)}")
    try:
        return tensor_bytes(dtype, shape)
    except DmcError as error:
        raise ProofError("V3", place, f"has elements of type '{dtype}', which {error.fact}", error.hint) from error


def check_inside(program: Program, place: str, touched: Range) -> None:
    """Raises ProofError for bytes that a rank does not have."""
    room = program.arenas.get(touched.space)
    if room is None:
        raise ProofError("V3", place, f"uses {told(touched)}, but the rank has no arena there")
    if touched.offset < 0 or touched.length < 1 or touched.end > room:
        raise ProofError("V3", place, f"uses {told(touched)}, outside the arena of {room} bytes")


def check_unique(place: str, what: str, names: Iterable[str]) -> None:
    """Raises ProofError for a name that is declared twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ProofError("V3", place, f"declares {what} '{name}' {count} times")
