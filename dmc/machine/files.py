"""Machines by name, from the JSON files in `data/`, or whole in one JSON file, as `dmc calibrate` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.machine.machine import Device, Link, Machine, Measured
from dmc.program.tuning import Choice, Table, tables


class _Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a machine's file in `data/`: device and links by the names of their files."""

    name: str
    description: str
    device: str
    ranks_per_node: int | None
    link: str | None = None
    network: str | None = None


_DATA = resources.files("dmc.machine") / "data"
_SUFFIX = ".json"
_Part = TypeVar("_Part", Device, Link, _Recipe)


def machine_names() -> tuple[str, ...]:
    """The names of all described machines, in alphabetical order."""
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in (_DATA / "machines").iterdir()))


def machine(name: str, tuning: Table | None = None) -> Machine:
    """The machine of that name, or in the file of that name (`….json`); raises DmcError if there is none.

    Of the machines in `data/`, a device's table of tuned kernels, if it comes with dmc, gives their times. tuning: a
    table of `dmc tune`, which gives those of its kernels if it was measured on such a device.
    """
    found = read_machine(Path(name)) if name.endswith(_SUFFIX) else _described(name)
    if tuning is None or not tuning.is_of(found.device.product):
        return found
    return replace(found, device=with_tuned(found.device, tuning.choices))


def _described(name: str) -> Machine:
    if name not in machine_names():
        hint = f"use one of {', '.join(machine_names())}, or a file that dmc calibrate wrote (….json)"
        raise DmcError(f"machine '{name}'", "is not described", hint=hint)
    recipe = _read("machines", name, _Recipe)
    device = _read("devices", recipe.device, Device)
    if recipe.device in tables():
        device = with_tuned(device, tables()[recipe.device].choices)
    return Machine(
        name=recipe.name,
        description=recipe.description,
        device=device,
        ranks_per_node=recipe.ranks_per_node,
        link=_link(recipe.link),
        network=_link(recipe.network),
    )


def read_machine(path: Path) -> Machine:
    """The machine in a file. Raises DmcError if it is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Machine)
    except (OSError, msgspec.DecodeError) as error:
        raise DmcError(f"machine '{path}'", f"cannot be read ({error})", hint="write it with dmc calibrate") from error


def write_machine(machine: Machine, path: Path) -> None:
    """Writes readable JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(machine), indent=2) + b"\n")


def with_tuned(device: Device, choices: Mapping[str, Choice]) -> Device:
    """The device with the times of the kernels that `dmc tune` measured on it, under constant load; of equal ones, the
    longest."""
    kernels: dict[str, Measured] = {}
    for choice in choices.values():
        ns = 1e3 * choice.us[choice.label] * device.sustained.factor
        known = kernels.get(choice.key)
        kernels[choice.key] = Measured(max(ns, known.ns if known else 0.0), "measured: dmc tune")
    return replace(device, kernels={**device.kernels, **dict(sorted(kernels.items()))})


def machine_for(name: str, ranks: int) -> str:
    """Of the machines with the device of machine `name` the smallest that has so many ranks; else `name` itself."""
    device = machine(name).device
    fitting = [
        each
        for each in map(machine, machine_names())
        if each.device == device and (each.ranks is None or each.ranks >= ranks)
    ]
    return min(fitting, key=lambda each: (each.ranks is None, each.ranks or 0)).name if fitting else name


def machine_of(product: str, ranks: int) -> str:
    """The machine with the device that a driver reports as `product`. Raises DmcError if none is described."""
    for name in machine_names():
        reported = machine(name).device.product
        if reported and product.startswith(reported):
            return machine_for(name, ranks)
    hint = "name a machine, or measure this one with dmc calibrate -o machine.json"
    raise DmcError(f"device '{product}'", "is not described", hint=hint)


def _link(name: str | None) -> Link | None:
    return None if name is None else _read("links", name, Link)


def _read(folder: str, name: str, kind: type[_Part]) -> _Part:
    return msgspec.json.decode((_DATA / folder / f"{name}{_SUFFIX}").read_bytes(), type=kind)
