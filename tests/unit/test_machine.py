"""The machines that are shipped: complete, with a source for every figure."""

from __future__ import annotations

import msgspec
import pytest

from dmc.errors import DmcError
from dmc.machine import Machine, cost_table_hash, machine, machine_names

MACHINES = [machine(name) for name in machine_names()]
DTYPES = ("f64", "f32", "f16", "bf16", "int")


def test_the_machines_of_the_contract_are_described() -> None:
    assert {"cpu", "h200", "h200x2", "h200x4", "h200x8", "node8"} <= set(machine_names())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_description_is_complete(machine: Machine) -> None:
    device = machine.device
    assert set(device.memories) == {"device", "pinned_host"}
    assert set(device.efficiency.shares) == {"matmul", "reduction", "elementwise", "other"}
    assert all(0 < share <= 1 for share in device.efficiency.shares.values())
    assert set(DTYPES) <= set(device.vector.rates)
    assert {"pinned_host>device", "device>pinned_host", "device>device"} <= set(device.copies)
    for link in filter(None, (machine.link, machine.network)):
        assert len(link.bandwidth) == 8
        assert link.compute_slowdown >= 1


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_figure_has_a_source(machine: Machine) -> None:
    parts = [machine.device, *filter(None, (machine.link, machine.network))]
    sources = [value for part in parts for key, value in _fields(msgspec.to_builtins(part)) if key == "source"]
    assert len(sources) >= 8
    assert all(len(str(source)) >= 7 for source in sources)


def test_the_hash_is_of_the_figures() -> None:
    node = machine("h200x2")
    assert cost_table_hash(node) == cost_table_hash(machine("h200x2"))
    faster = msgspec.structs.replace(node.device.launch, ns=1999)
    changed = msgspec.structs.replace(node, device=msgspec.structs.replace(node.device, launch=faster))
    assert cost_table_hash(changed) != cost_table_hash(node)
    assert len({cost_table_hash(each) for each in MACHINES}) == len(MACHINES)


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(DmcError, match=r"machine 'abacus': is not described\n.*use one of cpu, .* dmc calibrate"):
        machine("abacus")


def _fields(value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return []
    return [item for key, inner in value.items() for item in [(str(key), inner), *_fields(inner)]]
