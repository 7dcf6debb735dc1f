"""What people call tensors and movements, in labels of plans and in the ledger."""

from __future__ import annotations

# The gradient of a parameter is called so, and then by the parameter's name.
GRADIENT = "gradient of "
# Between the names of what one movement carries.
SEPARATOR = "; "
# Of more tensors the first and the last are named.
_MOST = 3


def short(label: str) -> str:
    """`gradient of a; gradient of b; …` in few words: `gradient of a, …, z (24 tensors)`; one name is as it was."""
    names = label.split(SEPARATOR)
    prefix = GRADIENT if all(name.startswith(GRADIENT) for name in names) else ""
    own = [name.removeprefix(prefix) for name in names]
    if len(own) <= _MOST:
        return prefix + ", ".join(own)
    return f"{prefix}{own[0]}, …, {own[-1]} ({len(own)} tensors)"
