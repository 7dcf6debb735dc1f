"""What the host passes to a rank before a step, and reads after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from dmc.dtypes import Array, numpy_type
from dmc.errors import InputError
from dmc.interpreter.memory import Memory
from dmc.program import HOST_ROLES, OUTPUT_ROLE, Program, Slot

# Arrays by the names of slots.
Ports: TypeAlias = Mapping[str, Array]
INPUTS = HOST_ROLES
OUTPUT = OUTPUT_ROLE


def fill_state(program: Program, memory: Memory, state: Ports) -> None:
    """Puts the state into its slots. Raises InputError unless there is exactly one array per slot.

    Nothing is converted.
    """
    _fill(program, memory, "state", state)


def fill_inputs(program: Program, memory: Memory, inputs: Ports) -> None:
    """Puts controls and batch into their slots, like `fill_state`."""
    _fill(program, memory, "inputs", inputs)


def outputs_of(program: Program, memory: Memory) -> dict[str, Array]:
    """The outputs, by name."""
    return _read(program, memory, OUTPUT)


def state_of(program: Program, memory: Memory) -> dict[str, Array]:
    """The state, by name."""
    return _read(program, memory, "state")


def _fill(program: Program, memory: Memory, kind: str, given: Ports) -> None:
    slots = {slot.name: slot for slot in program.slots if _kind(slot) == kind}
    if slots.keys() != given.keys():
        raise InputError(f"rank {program.rank}", f"{kind} are {sorted(given)}; they must be {sorted(slots)}")
    for name, slot in slots.items():
        _check(program, slot, given[name])
        memory.write(slot.range, given[name])


def _read(program: Program, memory: Memory, kind: str) -> dict[str, Array]:
    slots = [slot for slot in program.slots if _kind(slot) == kind]
    return {slot.name: memory.read(slot.range, slot.dtype, slot.shape) for slot in slots}


def _kind(slot: Slot) -> str:
    if slot.role == OUTPUT:
        return OUTPUT
    return "inputs" if slot.role in INPUTS else "state"


def _check(program: Program, slot: Slot, array: Array) -> None:
    wanted = (numpy_type(slot.dtype), slot.shape)
    if (array.dtype, array.shape) != wanted:
        fact = f"is {np.dtype(array.dtype)} of shape {array.shape}; it must be {wanted[0]} of shape {slot.shape}"
        raise InputError(f"rank {program.rank}, '{slot.name}'", fact)
