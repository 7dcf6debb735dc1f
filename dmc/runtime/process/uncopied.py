"""What exists once: it is neither pickled nor copied."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from dmc.errors import DmcError


class Uncopied:
    """A step, whose state is in the memory of a device."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """For `pickle`, `copy` and `torch.save`: raises DmcError."""
        fact = "cannot be pickled or copied: its state is in the memory of a device"
        hint = (
            "step.save(path) and dmc.load(path) keep the whole step; step.state_dict() is its state, for torch.save "
            "and step.load_state_dict"
        )
        raise DmcError("step", fact, hint)
