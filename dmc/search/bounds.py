"""What no plan of a kind can be faster than, or smaller: judged from one plan of another kind, without planning it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from dmc.machine import collective_ns, machine
from dmc.schedules import idle_formula
from dmc.search.candidates import Candidate
from dmc.search.facts import Facts, split_bytes
from dmc.search.problem import Problem, tensors
from dmc.search.trial import Trial

# Kernels of other shapes are faster by no more than this, or of the same shapes, beside other movements; those of a
# pipeline's smaller parts of a batch are not.
_FASTEST, _SAME, _OF_PARTS = 0.95, 0.98, 1.0
# Forward pass, gradients of inputs and those of weights, in time.
_PARTS = (1.0, 1.0, 1.0)
# Of the four sums of a layer under tensor parallelism, those that nothing hides.
_EXPOSED = 2
_NARROW = 2
_NS = 1e9


@dataclass(frozen=True)
class Bounds:
    """Bounds of candidates. reference, measured: a candidate, and its estimate."""

    problem: Problem
    facts: Facts
    reference: Candidate
    measured: Trial

    def ns(self, candidate: Candidate) -> float:
        """Nanoseconds of a step at least."""
        computing = (self.measured.busy - self.measured.update) * self._share(candidate)
        idle = 1.0 + idle_share(candidate)
        return (computing + self._sums_ns(candidate)) * idle + self._update_ns(candidate)

    def _share(self, candidate: Candidate) -> float:
        """Of the time that the reference computes."""
        if candidate.pp > 1:
            return _OF_PARTS
        # Stages of ZeRO differ in movements alone.
        return _SAME if replace(candidate, zero=self.reference.zero) == self.reference else _FASTEST

    def _update_ns(self, candidate: Candidate) -> float:
        """Nanoseconds of the optimizer's update."""
        measured, ranks = self.measured.update, candidate.over["optimizer state"]
        less = ranks / self.reference.over["optimizer state"]
        if less >= 1.0:
            return measured / less
        # Of more it takes no less time, nor less than memory takes to read and write it; gradients may be narrow.
        traffic = (2 * (self.facts.trained + self.facts.optimizer) + self.facts.trained // _NARROW) / ranks
        return max(measured, traffic / machine(self.problem.machine).device.memories["device"].bandwidth * _NS)

    def _sums_ns(self, candidate: Candidate) -> float:
        """Nanoseconds of the sums between the parts of layers that are split over ranks."""
        if candidate.tp == 1:
            return 0.0
        first = next(tensors(self.problem.example))
        tokens = first.numel() if first.dim() > 1 and not first.is_floating_point() else 0
        size = tokens // candidate.dp // candidate.microbatches * self.facts.width * _NARROW
        layers = sum(each.count for each in self.facts.layers) / candidate.pp
        one = collective_ns(machine(self.problem.machine), "all_reduce", range(candidate.tp), size) if size else 0.0
        return one * layers * candidate.microbatches * _EXPOSED


def idle_share(candidate: Candidate) -> float:
    """The idle time of a pipeline, in parts of the time that a rank computes."""
    if candidate.pp == 1:
        return 0.0
    sizes = candidate.schedule, candidate.pp, candidate.microbatches, candidate.chunks
    return (idle_formula(*sizes, *_PARTS) or 0.0) / (candidate.microbatches * candidate.chunks * sum(_PARTS))


def held_bytes(candidate: Candidate, facts: Facts) -> dict[str, int]:
    """What a rank holds of the state at least, by name."""
    found = split_bytes(facts, candidate.over)
    return {name: 0 if candidate.host and name == "optimizer state" else size for name, size in found.items()}


def pipelined(candidate: Candidate, facts: Facts, one: Trial) -> Trial:
    """The estimate of a pipeline, from that of one micro-batch on the ranks of one stage, with all layers."""
    micro, stages = candidate.microbatches, candidate.pp
    layers, parts = sum(each.count for each in facts.layers) or facts.blocks, stages * candidate.chunks
    # The largest stage, where they do not divide the layers.
    computing = one.times(ceil(layers / parts) * parts / layers / stages)
    passes, idle = micro * (computing.ns - computing.update), idle_share(candidate)
    # A micro-batch's activations, of as many as the first stage has begun.
    held = min(micro, stages) * (1.0 + (stages - 1) / stages * (candidate.chunks > 1))
    activations = (computing.bytes - computing.state) * held
    return Trial(
        ns=passes * (1.0 + idle) + computing.update,
        bytes=computing.state + activations,
        busy=micro * (computing.busy - computing.update) + computing.update,
        update=computing.update,
        communication=micro * computing.communication,
        copies=micro * computing.copies,
        others=passes * idle + micro * computing.others,
        weights=computing.weights,
        gradients=computing.gradients,
        optimizer=computing.optimizer,
    )
