"""Whether what a GPU runs of a job keeps to the launches, as far as steps and PTX tell."""

from __future__ import annotations

from dmc.errors import ProofError
from dmc.program.code import DeviceCode, Dispatch
from dmc.program.contract import check_contracts, phases_of
from dmc.program.job import Job
from dmc.program.ptx_writes import Writes, written_parameters


def check_device_code(job: Job, code: DeviceCode) -> None:
    """Raises ProofError for a launch of `job` that its kernel's steps do not keep to, and for an entry that may write
    a buffer which its dispatch only reads.
    """
    check_contracts(job, {name: phases_of(steps) for name, steps in code.kernels.items()})
    entries = {name: written_parameters(module.ptx) for name, module in code.modules.items()}
    for name, steps in code.kernels.items():
        for step in steps:
            if not isinstance(step, Dispatch):
                continue
            entry = entries.get(step.module, {}).get(step.entry)
            if (fact := _breach(step, entry)) is not None:
                raise ProofError("V12", f"kernel @{name}, entry {step.entry}", fact, "please report the model")


def _breach(step: Dispatch, entry: Writes | None) -> str | None:
    given = len(step.bindings) + len(step.scalars) + step.nulls
    if entry is None:
        return "is not in the code"
    if entry.count != given:
        return f"takes {entry.count} parameters, but gets {given}"
    if not entry.is_known:
        return "writes to an address that is not computed from its parameters"
    for index in sorted(entry.parameters):
        if index >= len(step.bindings) or "w" not in step.bindings[index].access:
            return f"may write through parameter {index}, which its dispatch only reads"
    return None
