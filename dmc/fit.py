"""The largest batch that fits into a memory, found by planning: nothing is compiled or run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from dmc import dialect, plans
from dmc._mlir import ir
from dmc.arguments import check_meaning, check_model, checked_mesh, micro_batches, precision_named, with_verbs
from dmc.cache import Cache, using
from dmc.compilation import arranged, state_plan
from dmc.errors import DmcError, MemoryCapError
from dmc.executors import Builder, Settings
from dmc.importer.step import import_step
from dmc.machine import machine as machine_named
from dmc.machine import machine_for
from dmc.observer import Observer
from dmc.program import Command, Job, Launch, device_bytes
from dmc.program.labels import RECOMPUTED
from dmc.program.offloading import fetched_bytes, offloaded_bytes
from dmc.simulator import simulate
from dmc.simulator.summary import summarise
from dmc.target import targets

_TRIES = 8  # plans at most


@dataclass(frozen=True)
class Fit:
    """A batch that fits. bytes: the device memory of a rank. recomputed: kernels that run again. ns: predicted.
    on_host: bytes of activations and optimizer state that wait in host memory.
    """

    batch: int
    bytes: int
    recomputed: int
    ns: float
    on_host: int = 0

    @property
    def per_sample_ns(self) -> float:
        """Predicted nanoseconds a sample."""
        return self.ns / self.batch


@dataclass(frozen=True)
class Search:
    """fits: batches that fit, ascending. refused: the smallest batch for which no plan was found, and its bytes."""

    fits: tuple[Fit, ...]
    refused: tuple[int, int] | None


# A plan of a batch under the cap. Raises MemoryCapError.
Plan = Callable[[int], Fit]


def find(plan: Plan, batch: int, step: int, cap: int) -> Search:
    """Plans multiples of `step`, first `batch`, until the largest that fits is known to within an eighth.

    Memory is about linear in the batch, whether all is kept or as much as possible is computed again; so two plans of
    either kind say where the cap is reached.
    """
    searching = _Searching(plan, step, cap)
    wanted = max(batch // step, 1)
    for _ in range(_TRIES):
        searching.tries(wanted)
        following = searching.following()
        if following is None:
            break
        wanted = following
    fits = tuple(sorted(searching.fits.values(), key=lambda each: each.batch))
    refused = min(searching.needed, default=None)
    return Search(fits, None if refused is None else (refused * step, searching.needed[refused]))


@dataclass
class _Searching:
    """By batch in steps: what fits, and the bytes needed of what does not."""

    plan: Plan
    step: int
    cap: int
    fits: dict[int, Fit] = field(default_factory=dict[int, Fit])
    needed: dict[int, int] = field(default_factory=dict[int, int])

    def tries(self, count: int) -> None:
        try:
            self.fits[count] = self.plan(count * self.step)
        except MemoryCapError as error:
            self.needed[count] = error.needed

    def following(self) -> int | None:
        """The next to try; None if the largest is known well enough."""
        low, high = max(self.fits, default=0), min(self.needed, default=None)
        if high is None:
            return max(2 * low, self._where_full({count: each.bytes for count, each in self.fits.items()}) or 0)
        if high - low <= max(1, low // 8):
            return None
        return min(max(self._where_full(self.needed) or (low + high) // 2, low + 1), high - 1)

    def _where_full(self, known: Mapping[int, int]) -> int | None:
        """Where the line through the smallest and the largest of known batches reaches the cap; None for one batch."""
        first, last = min(known), max(known)
        if known[last] <= known[first]:
            return None
        return first + (self.cap - known[first]) * (last - first) // (known[last] - known[first])


def planner(keywords: Mapping[str, Any], cap: int) -> tuple[Plan, int, int]:
    """A plan by batch of the step that keyword arguments of `dmc.compile` describe; the batch of the example; the step
    in which batches grow, which its ranks and micro-batches divide.

    The example is cut or repeated along dimension 0, in all tensors that have as many rows as the first.
    """
    options = dict(keywords)
    if options.get("phases") is not None:
        fact = "are several programs, each with a batch of its own"
        raise DmcError("phases", fact, hint="fit the largest of them as a step without phases")
    example, mesh = options.pop("example"), checked_mesh(options.get("mesh"), options.get("plan"))
    if isinstance(example, list):
        raise DmcError("example", "is a list of several shapes", hint="pass one batch, such as the largest of them")
    rows = next((each.shape[0] for each in _tensors(example) if each.dim()), 0)
    if not rows:
        raise DmcError("example", "contains no tensor with a batch dimension", hint="pass a batch as an example")
    options["accumulate"] = micro_batches(options.get("accumulate"), options.get("plan"))
    step = options["accumulate"] * (1 if mesh is None else mesh.size)

    def plan(batch: int) -> Fit:
        job, name = _job(_resized(example, rows, batch), cap, **options)
        recomputed = max(sum(map(_is_again, each.program.commands)) for each in job.classes)
        summary = summarise(simulate(job, machine_named(name), fold=True))
        size = max(device_bytes(each.program.arenas) for each in job.classes)
        on_host = max(offloaded_bytes(each.program) + fetched_bytes(each.program) for each in job.classes)
        return Fit(batch, size, recomputed, summary.step_ns, on_host)

    return plan, rows, step


def _job(
    example: Any,
    cap: int,
    *,
    model: Any,
    optimizer: Any,
    loss: Any = None,
    precision: str = "fp32",
    accumulate: int = 1,
    mesh: Any = None,
    plan: Any = None,
    target: str = "cpu",
    machine: str | None = None,
    seed: int = 0,
    **_: Any,
) -> tuple[Job, str]:
    """The plan of a step, and the machine that it is for. What else `dmc.compile` takes does not change its memory."""
    mesh = checked_mesh(mesh, plan)
    check_meaning(loss, example, seed)
    check_model(model, loss)
    chosen, kind = targets(target), precision_named(precision)
    name = machine or machine_for(chosen[0].machine, 1 if mesh is None else mesh.size)
    with using(Cache.of(os.environ)), ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        given = optimizer, example, kind, accumulate, seed
        with with_verbs(model, plan, kind, chosen, "static", mesh):
            imported = import_step(model, loss, *given, context, plans.data_parts(plan))
        plan, factors, _notes = arranged(plan, imported, accumulate, machine_named(name))
        state_plan(imported, plan, accumulate, chosen[0], factors)
        builder = Builder(imported.module, imported.signature, Settings(target, name, cap), Observer())
        return builder.plan().job, name


def _is_again(command: Command) -> bool:
    return isinstance(command, Launch) and command.label.endswith(RECOMPUTED)


def _tensors(example: Any) -> Iterator[torch.Tensor]:
    if isinstance(example, torch.Tensor):
        yield example
    elif isinstance(example, Mapping):
        for each in example.values():
            yield from _tensors(each)
    elif isinstance(example, tuple | list):
        for each in example:
            yield from _tensors(each)


def _resized(example: Any, rows: int, batch: int) -> Any:
    """The example with `batch` rows instead of `rows`."""
    if isinstance(example, torch.Tensor):
        is_batch = example.dim() > 0 and example.shape[0] == rows
        return example[torch.arange(batch) % rows] if is_batch else example
    if isinstance(example, Mapping):
        return {name: _resized(each, rows, batch) for name, each in example.items()}
    if isinstance(example, tuple | list):
        return type(example)(_resized(each, rows, batch) for each in example)
    return example
