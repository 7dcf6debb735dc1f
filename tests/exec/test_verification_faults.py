"""Planted faults: verification refuses the step and names the stage that changed the meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc import executors
from dmc.errors import VerificationError
from dmc.importer.decompositions import decompositions
from dmc.importer.forward import patterns, rules
from dmc.program import Job, Launch
from dmc.verification import verify as verification
from tests.mutations.of_slots import moved_slot
from tests.rank_programs import with_programs

aten = torch.ops.aten
ROWS, WIDTH = 4, 6


class Small(nn.Module):
    """Something for every fault: a scan, a composite, and what looks like the pattern of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.activation = nn.GELU()
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """f32[ROWS, WIDTH] → f32[ROWS, WIDTH]"""
        h = self.activation(self.first(x)).cumsum(1)
        return self.second(h) + 0.5 * h * (1.0 + torch.tanh(0.7 * h))


def refusal() -> str:
    """What verification says of the small model."""
    torch.manual_seed(0)
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    optimizer = dmc.optim.SGD(lr=1e-2, momentum=0.9)
    with pytest.raises(VerificationError) as error:
        dmc.compile(Small(), loss=nn.functional.mse_loss, optimizer=optimizer, example=example, verify=True)
    return str(error.value)


def test_a_wrong_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return x * 2.0

    wrong = {**decompositions.table(), aten.cumsum.default: doubled}
    monkeypatch.setattr(decompositions, "table", lambda: wrong)
    text = refusal()
    assert "changed in the decomposed graph, first at" in text
    assert text.split("first at")[1].split("\n")[0].endswith("aten.cumsum")
    assert f"{__file__}:" in text


def test_a_wrong_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every tanh is taken for that of a gelu.
    monkeypatch.setattr(patterns, "_is_gelu_tanh", lambda node, x: getattr(node, "target", None) is aten.tanh.default)
    text = refusal()
    assert "changed in the patterns, first at" in text
    assert f"{__file__}:" in text and "gelu" in text.split("first at")[1]


class _HalfTheGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return nn.functional.gelu(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 0.5 * torch.ops.dmc.gelu_backward(gradients[0], x, "none")


def test_a_wrong_backward_of_a_composite(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(random: Any, x: Tensor, *, approximate: str = "none") -> Any:
        return _HalfTheGradient.apply(x)

    monkeypatch.setitem(rules.RULES, aten.gelu.default, rule)
    text = refusal()
    assert "changed in the rules and composites, first at module 'activation'" in text
    assert "aten.gelu, backward" in text


def _edited(job: Job, edit: Callable[[Job, Launch], Launch | None]) -> Job:
    """The job with the first launch edited of which `edit` makes another."""
    (program,) = job.programs
    for place, command in enumerate(program.commands):
        new = edit(job, command) if isinstance(command, Launch) else None
        if new is not None:
            commands = (*program.commands[:place], new, *program.commands[place + 1 :])
            return with_programs(job, [msgspec.structs.replace(program, commands=commands)])
    raise AssertionError("no launch fits")


def _swapped(job: Job, launch: Launch) -> Launch | None:
    """Two operands of one type swapped, of a matrix product."""
    kernel = job.kernels[launch.kernel]
    if kernel.kind != "matmul" or kernel.reads[0] != kernel.reads[1]:
        return None
    one, other, *rest = launch.reads
    return msgspec.structs.replace(launch, reads=(other, one, *rest))


def _into_its_operand(job: Job, launch: Launch) -> Launch | None:
    """A kernel that writes to what it reads, beside its result."""
    if launch.writes[0] in launch.reads:
        return None
    (*_, source) = (each for each in launch.reads)
    if source.length != launch.writes[0].length:
        return None
    return msgspec.structs.replace(launch, writes=(source, *launch.writes[1:]))


def test_operands_swapped_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    read, prove = executors.job_of, executors.verify
    jobs: list[Job] = []

    def planned(module: Any) -> Job:
        jobs.append(read(module))
        return _edited(jobs[0], _swapped)

    # The proof would refuse it first.
    monkeypatch.setattr(executors, "job_of", planned)
    monkeypatch.setattr(executors, "verify", lambda job, *rest: prove(jobs[0], *rest))
    text = refusal()
    assert "changed in form planned, first at" in text
    assert "(kernel " in text.split("first at")[1]


def _of_other_moments(job: Job, launch: Launch) -> Launch | None:
    """An update that reads each moment where the other lies: both are zero in the first step."""
    slots = {slot.name: slot.range for slot in job.programs[0].slots}
    means = [name for name in slots if name.endswith(".exp_avg") and slots[name] in launch.reads]
    if not means:
        return None
    pairs = [(slots[name], slots[f"{name}_sq"]) for name in means]
    other = {**dict(pairs), **{second: first for first, second in pairs}}
    return msgspec.structs.replace(launch, reads=tuple(other.get(each, each) for each in launch.reads))


def _trained(verify: bool) -> None:
    torch.manual_seed(0)
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    optimizer = dmc.optim.AdamW(lr=1e-2)
    dmc.compile(Small(), loss=nn.functional.mse_loss, optimizer=optimizer, example=example, verify=verify).close()


def _found_later(monkeypatch: pytest.MonkeyPatch) -> str:
    """What verification says of a fault that the first step does not show."""
    with monkeypatch.context() as short:
        short.setattr(verification, "STEPS", 1)
        _trained(verify=True)
    with pytest.raises(VerificationError, match="agrees with PyTorch eager in one step, but differs in step") as error:
        _trained(verify=True)
    return str(error.value)


def test_state_that_is_read_where_other_state_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_job = executors.compile_job
    monkeypatch.setattr(
        executors, "compile_job", lambda job, *rest: compile_job(_edited(job, _of_other_moments), *rest)
    )
    assert "its forms agree, as far as they can be interpreted, and the compiled code does not" in _found_later(
        monkeypatch
    )


def test_state_in_memory_that_the_next_call_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    read, prove = executors.job_of, executors.verify
    jobs: list[Job] = []

    def planned(module: Any) -> Job:
        jobs.append(read(module))
        (program,) = jobs[-1].programs
        weight = next(slot for slot in program.slots if slot.name == "second.weight")
        moved = moved_slot(program, weight, "pinned_host")
        return with_programs(jobs[-1], [moved])

    monkeypatch.setattr(executors, "job_of", planned)
    # The proof would refuse it first.
    monkeypatch.setattr(executors, "verify", lambda job, *rest: prove(jobs[-1], *rest))
    text = _found_later(monkeypatch)
    assert "step 1 of 2" in text
    assert "newly opened with the same state, it agrees: what it keeps is not where the next call looks for it" in text


def test_a_kernel_that_writes_its_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_job = executors.compile_job

    def otherwise(job: Job, code: Any, target: Any) -> Any:
        return compile_job(_edited(job, _into_its_operand), code, target)

    monkeypatch.setattr(executors, "compile_job", otherwise)
    text = refusal()
    assert "changed in the compiled code, first at the results of" in text
