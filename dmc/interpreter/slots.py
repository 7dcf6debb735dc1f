"""What the host passes to a rank before a step, and reads after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from dmc.errors import InputError
from dmc.interpreter.dtypes import Array, numpy_type
from dmc.interpreter.memory import Memory
from dmc.program import Program, Slot

# Arrays by the names of slots.
Ports: TypeAlias = Mapping[str, Array]
INPUTS = ("control", "batch")
OUTPUT = "output"


def fill(program: Program, memory: Memory, state: Ports, inputs: Ports) -> None:
    """Puts state and inputs into their slots. Raises InputError unless there is exactly one array per slot.

    Nothing is converted.
    """
    for kind, given in (("state", state), ("inputs", inputs)):
        slots = {slot.name: slot for slot in program.slots if _kind(slot) == kind}
        if slots.keys() != given.keys():
            raise InputError(f"rank {program.rank}", f"{kind} are {sorted(given)}; they must be {sorted(slots)}")
        for name, slot in slots.items():
            _check(program, slot, given[name])
            memory.write(slot.range, given[name])


def leave(program: Program, memory: Memory) -> tuple[dict[str, Array], dict[str, Array]]:
    """Outputs and state, by name."""
    read = {
        kind: {
            slot.name: memory.read(slot.range, slot.dtype, slot.shape) for slot in program.slots if _kind(slot) == kind
        }
        for kind in (OUTPUT, "state")
    }
    return read[OUTPUT], read["state"]


def _kind(slot: Slot) -> str:
    if slot.role == OUTPUT:
        return OUTPUT
    return "inputs" if slot.role in INPUTS else "state"


def _check(program: Program, slot: Slot, array: Array) -> None:
    wanted = (numpy_type(slot.dtype), slot.shape)
    if (array.dtype, array.shape) != wanted:
        fact = f"is {np.dtype(array.dtype)} of shape {array.shape}; it must be {wanted[0]} of shape {slot.shape}"
        raise InputError(f"rank {program.rank}, '{slot.name}'", fact)
