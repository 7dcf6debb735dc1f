"""Readable names of tensors and movements, in labels of plans and in the ledger."""

from __future__ import annotations

# The prefix of a gradient's name, before the parameter's.
GRADIENT = "gradient of "
# Separates the names of tensors in one movement.
SEPARATOR = "; "
# The end of the label of a kernel of the backward pass; of an update; of a kernel of the forward pass that runs again
# in the backward pass.
BACKWARD = ", backward"
UPDATE = ", update"
RECOMPUTED = ", recomputed"
# For more tensors, only the first and the last are named.
_MOST = 3


def short(label: str) -> str:
    """`gradient of a; gradient of b; …` abbreviated: `gradient of a, …, z (24 tensors)`; a single name is unchanged."""
    names = label.split(SEPARATOR)
    prefix = GRADIENT if all(name.startswith(GRADIENT) for name in names) else ""
    own = [name.removeprefix(prefix) for name in names]
    if len(own) <= _MOST:
        return prefix + ", ".join(own)
    return f"{prefix}{own[0]}, …, {own[-1]} ({len(own)} tensors)"
