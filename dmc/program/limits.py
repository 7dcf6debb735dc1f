"""What a file may say: types whose limits msgspec checks while it reads, before anything uses the value."""

from __future__ import annotations

from typing import Annotated

from msgspec import DecodeError, Meta

# What reading a value of a type raises: for another one, one nested too deeply, and bytes that are not UTF-8.
DECODE_ERRORS = (DecodeError, RecursionError, UnicodeDecodeError)

# More ranks than any plan has; what is checked for each group of ranks stays fast.
MAX_RANKS = 4096

# The most bytes of a manifest, which nothing vouches for: that of 2,500 tensors split over 4096 ranks has 100 MB.
MAX_MANIFEST = 256 << 20

# Numbers and bytes, offsets and lengths: sums of two fit into 64 bits.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
# No control characters, which would reach a terminal in messages and tables. \Z: $ would let a last newline pass.
Name = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z", max_length=4096)]
Axis = Annotated[str, Meta(pattern=r"^(?!links\Z)[^\W\d]\w*\Z", max_length=128)]
AxisSize = Annotated[int, Meta(ge=1, le=MAX_RANKS)]
ElementType = Annotated[str, Meta(pattern=r"^(index|[a-z]+[0-9]{1,4}[A-Za-z0-9]*)\Z", max_length=32)]
Shape = Annotated[tuple[Count, ...], Meta(max_length=64)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
