"""Kernels of a model, each alone between guard bytes: they leave their operands and all other memory as they are.

Each runs on the same operands three times: twice on memory that holds different bytes, and once in place where the plan
has it in place. All give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.api import compile_artifact
from dmc.program import Job, Launch, Operand, Program, Range, aligned
from dmc.program.program import Lane, Slot
from dmc.runtime.artifact import Artifact
from dmc.runtime.dtypes import dtype_of
from tests.planned_jobs import run, session

GUARD = 256
WIDTH = 16


class Model(nn.Module):
    """An operation of each kind of kernel: products, reductions, gathers, slices, scatters, state in place."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.convolution = nn.Conv2d(1, 2, 3)
        self.batch_norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(WIDTH, 12)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """int64[3, 6] → f32[18, 12]."""
        x = self.norm(self.table(index))
        x = x + functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        doubled = x.clone()
        doubled[:, ::2] *= 2.0
        x = doubled + x.flip(1)
        image = self.batch_norm(self.convolution(x.unsqueeze(1)))
        x = x + functional.max_pool2d(functional.gelu(image), 2).mean(dim=(1, 2, 3)).view(-1, 1, 1)
        return self.head(x + x.topk(1).values).flatten(0, 1)


@cache
def _compiled() -> Artifact:
    torch.manual_seed(0)
    index, targets = torch.randint(0, 12, (3, 6)), torch.randint(0, 12, (18,))
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    return compile_artifact(Model(), loss=functional.cross_entropy, optimizer=optimizer, example=(index, targets))


@dataclass(frozen=True)
class Trial:
    """A launch of its own: where its operands, results and scratch are, and the operands' bytes."""

    launch: Launch
    operands: tuple[bytes, ...]


class Guarded:
    """A job that launches kernels one after another, each on memory of its own with guard bytes around all of it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.size = GUARD
        self.trials: list[Trial] = []

    def add(self, launch: Launch, *, in_place: bool) -> None:
        """Launches the kernel of a launch; a result takes the place of an operand, `in_place`, where it did there."""
        kernel = self.job.kernels[launch.kernel]
        places: dict[Range, Range] = {each: self._room(each.length) for each in launch.reads}
        reads = tuple(places[each] for each in launch.reads)
        writes = tuple(
            places[each] if in_place and each in places else self._room(each.length) for each in launch.writes
        )
        scratch = None if launch.scratch is None else self._room(launch.scratch.length)
        # An operand that is read twice is one.
        first = [launch.reads.index(each) for each in launch.reads]
        operands = tuple(_bytes(kernel.reads[i], seed=i) for i in first)
        self.trials.append(Trial(Launch(0, launch.kernel, reads, writes, scratch), operands))

    def run(self) -> Iterator[tuple[Trial, list[bytes]]]:
        """Each launch with the bytes of its results. Asserts that nothing else has changed."""
        before = np.random.default_rng(1).integers(-128, 128, self.size, np.int8)
        for trial in self.trials:
            for where, data in zip(trial.launch.reads, trial.operands, strict=True):
                before[where.offset : where.end] = np.frombuffer(data, np.int8)
        after = self._after(before)
        untouched = np.ones(self.size, np.bool_)
        for launch in (trial.launch for trial in self.trials):
            for where in (*launch.writes, *([launch.scratch] if launch.scratch else [])):
                untouched[where.offset : where.end] = False
        for launch in (trial.launch for trial in self.trials):
            near = slice(launch.reads[0].offset if launch.reads else launch.writes[0].offset, launch.writes[-1].end)
            changed = np.flatnonzero(untouched[near] & (before[near] != after[near]))
            assert not len(changed), f"{launch} changes byte {near.start + changed[0]}"
        np.testing.assert_array_equal(after[untouched], before[untouched])
        for trial in self.trials:
            yield trial, [after[where.offset : where.end].tobytes() for where in trial.launch.writes]

    def _room(self, length: int) -> Range:
        given = Range("device", self.size, length)
        self.size += aligned(length) + GUARD
        return given

    def _after(self, before: np.ndarray) -> np.ndarray:
        memory = Slot("memory", "parameter", "i8", (self.size,), Range("device", 0, self.size))
        commands = tuple(trial.launch for trial in self.trials)
        program = Program(0, {"device": self.size}, (Lane("compute", "compute"),), (memory,), commands)
        job = Job({"rank": 1}, (), self.job.kernels, (program,))
        loaded = session(job, _compiled().ir["03-scheduled"], {"memory": [before]})
        run(loaded, {})
        after = loaded.read_state(0)
        loaded.close()
        return after


def _bytes(operand: Operand, seed: int) -> bytes:
    """Values of its type; integers that are indices of anything."""
    dtype = dtype_of(operand.dtype).numpy
    drawn = np.random.default_rng(seed)
    values = drawn.integers(0, 2, operand.shape) if dtype.kind in "iub" else drawn.uniform(0.1, 1.0, operand.shape)
    return np.asarray(values).astype(dtype).tobytes()


def _launches(job: Job) -> list[Launch]:
    """One of each kernel for each way in which its results lie on its operands."""
    kinds: dict[tuple[str, tuple[int, ...]], Launch] = {}
    for command in job.programs[0].commands:
        if isinstance(command, Launch):
            where = tuple(command.reads.index(each) if each in command.reads else -1 for each in command.writes)
            kinds.setdefault((command.kernel, where), command)
    return list(kinds.values())


def test_kernels_keep_to_their_ranges() -> None:
    job = _compiled().job
    launches = _launches(job)
    assert any(each in launch.reads for launch in launches for each in launch.writes), "nothing is in place"
    guarded = Guarded(job)
    for launch in launches:
        for in_place in (False, False, True):
            guarded.add(launch, in_place=in_place)
    results = list(guarded.run())
    for number, launch in enumerate(launches):
        (_, first), (_, second), (_, third) = results[3 * number : 3 * number + 3]
        assert first == second, f"{launch.kernel} reads what is no operand"
        assert first == third, f"{launch.kernel} gives something else in place"
