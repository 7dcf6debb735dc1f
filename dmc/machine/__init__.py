"""Machines as data, and the cost of kernels, moves and collectives on them. Independent of compiler and runtime."""

from dmc.machine.collectives import collective_ns, links_of
from dmc.machine.cost import at_peak_ns, kernel_ns, launch_bytes, launch_ns, move_ns
from dmc.machine.files import (
    machine,
    machine_for,
    machine_names,
    machine_of,
    read_machine,
    with_tuned,
    write_machine,
)
from dmc.machine.machine import (
    Copying,
    Device,
    Factor,
    Family,
    Floor,
    Link,
    Machine,
    Measured,
    Memory,
    Rates,
    Shares,
    cost_table_hash,
)

__all__ = [
    "Copying",
    "Device",
    "Factor",
    "Family",
    "Floor",
    "Link",
    "Machine",
    "Measured",
    "Memory",
    "Rates",
    "Shares",
    "at_peak_ns",
    "collective_ns",
    "cost_table_hash",
    "kernel_ns",
    "launch_bytes",
    "launch_ns",
    "links_of",
    "machine",
    "machine_for",
    "machine_names",
    "machine_of",
    "move_ns",
    "read_machine",
    "with_tuned",
    "write_machine",
]
