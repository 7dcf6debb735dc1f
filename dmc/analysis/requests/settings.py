"""The user's compiler settings, as attributes of the module, so that a dump of any form can be resumed as it was.

`dm.target`: what runs the step ("cpu", "cuda", several joined by "+"). `dm.machine`: the machine for which it is
scheduled (`dmc.machine`). `dm.memory_cap`: bytes of device memory that a rank may use. `dm.tuning`: the user's tuning
table as JSON, since a form does not depend on where files are; it selects code for a GPU and says how long that takes
(`dmc.program.tuning`).
`dm.ways`: for kernels for which the code generator failed, by name, the way in which it is tried next
(`dmc.lowering.kernels.kernels.WAYS`).
`dm.estimate`: the plan is only judged, not run, so that no code is generated.
"""

from __future__ import annotations

from collections.abc import Mapping

from dmc._mlir import ir
from dmc.machine import Machine, machine
from dmc.program.tuning import Table

TARGET, MACHINE, MEMORY_CAP, TUNING = "dm.target", "dm.machine", "dm.memory_cap", "dm.tuning"
WAYS, ESTIMATE = "dm.ways", "dm.estimate"


def write_settings(module: ir.Module, target: str, machine: str, memory_cap: int, tuning: Table | None = None) -> None:
    """States the settings; a cap of 0 means none."""
    attributes = module.operation.attributes
    attributes[TARGET] = ir.StringAttr.get(target, module.context)
    attributes[MACHINE] = ir.StringAttr.get(machine, module.context)
    if tuning is not None:
        attributes[TUNING] = ir.StringAttr.get(tuning.text(), module.context)
    if memory_cap:
        i64 = ir.IntegerType.get_signless(64, module.context)
        attributes[MEMORY_CAP] = ir.IntegerAttr.get(i64, memory_cap)


def target_of(module: ir.Module, given: str = "") -> str:
    """`given`, the option of a pass, or else the module's, or else this machine's processor."""
    return given or _string(module, TARGET) or "cpu"


def machine_of(module: ir.Module, given: str = "") -> str:
    """`given`, the option of a pass, or else the module's, or else this machine."""
    return given or _string(module, MACHINE) or "cpu"


def costs_of(module: ir.Module, given: str = "") -> Machine:
    """The machine of `machine_of`, with the times of the user's tuning table. Raises DmcError if there is none."""
    return machine(machine_of(module, given), tuning_of(module))


def memory_cap_of(module: ir.Module, given: int = 0) -> int:
    """`given`, the option of a pass, or else the module's; 0 for none. In bytes."""
    attributes = module.operation.attributes
    return given or (ir.IntegerAttr(attributes[MEMORY_CAP]).value if MEMORY_CAP in attributes else 0)


def tuning_of(module: ir.Module) -> Table | None:
    """The user's tuning table, if there is one. Raises ArtifactError where it is damaged."""
    text = _string(module, TUNING)
    return Table.parse(text, f"attribute {TUNING}") if text else None


def write_estimate(module: ir.Module) -> None:
    """States that the plan is only judged."""
    module.operation.attributes[ESTIMATE] = ir.UnitAttr.get(module.context)


def is_estimate(module: ir.Module) -> bool:
    """Whether the plan is only judged: kernels have no code."""
    return ESTIMATE in module.operation.attributes


def write_ways(module: ir.Module, ways: Mapping[str, int]) -> None:
    """States the ways of some kernels; those of others stay."""
    i64 = ir.IntegerType.get_signless(64, module.context)
    every = {name: ir.IntegerAttr.get(i64, number) for name, number in {**ways_of(module), **ways}.items()}
    module.operation.attributes[WAYS] = ir.DictAttr.get(every, module.context)


def ways_of(module: ir.Module) -> dict[str, int]:
    """The ways of the kernels that are not compiled in the first."""
    attributes = module.operation.attributes
    if WAYS not in attributes:
        return {}
    return {each.name: ir.IntegerAttr(each.attr).value for each in ir.DictAttr(attributes[WAYS])}


def _string(module: ir.Module, name: str) -> str:
    attributes = module.operation.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else ""
