"""Parameters of dropout: random bits of an element, threshold and scale."""

from __future__ import annotations

from dataclasses import dataclass

_BITS, _FEW_BITS = 16, 8
# How far a probability in few bits may be off, relative to it.
_OFF = 0.02


@dataclass(frozen=True)
class Share:
    """An element draws `bits` bits: it is dropped where these are below `threshold`, else multiplied by `scale`."""

    bits: int
    threshold: int
    scale: float

    @property
    def dropped(self) -> float:
        """The probability by which an element is dropped."""
        return self.threshold / 2**self.bits


def share_of(p: float) -> Share:
    """For dropout with probability `p` in [0, 1]: rounded to 1/65536, and scaled as in eager."""
    return Share(_BITS, round(p * 2**_BITS), 1.0 / (1.0 - p) if p < 1.0 else 0.0)


def share_of_attention(p: float) -> Share:
    """For dropout of the probabilities in attention, of which there are far more than of anything else.

    In 8 bits where these state `p` within 2 %, as FlashAttention does (Dao et al., 2022); half the bits take half the
    time. What is kept is scaled by the share that is kept, so that the mean is exact.
    """
    few = round(p * 2**_FEW_BITS)
    if abs(few / 2**_FEW_BITS - p) <= _OFF * p and 0 < few < 2**_FEW_BITS:
        return Share(_FEW_BITS, few, 2**_FEW_BITS / (2**_FEW_BITS - few))
    return share_of(p)
