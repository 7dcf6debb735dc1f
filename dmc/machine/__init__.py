"""Machines as data, and the cost of kernels, moves and collectives on them. Independent of compiler and runtime."""

from dmc.machine.collectives import collective_ns, links_of
from dmc.machine.cost import kernel_key, kernel_ns, launch_ns, move_ns
from dmc.machine.machine import (
    Copying,
    Device,
    Floor,
    Link,
    Machine,
    Measured,
    Memory,
    Rates,
    Shares,
    cost_table_hash,
    machine,
    machine_for,
    machine_names,
)

__all__ = [
    "Copying",
    "Device",
    "Floor",
    "Link",
    "Machine",
    "Measured",
    "Memory",
    "Rates",
    "Shares",
    "collective_ns",
    "cost_table_hash",
    "kernel_key",
    "kernel_ns",
    "launch_ns",
    "links_of",
    "machine",
    "machine_for",
    "machine_names",
    "move_ns",
]
