"""Schedules that split the backward in gradients of inputs and of weights: zero bubble, its V, and DualPipeV.

ZB-H1, ZB-H2: Qi et al. 2023, arXiv:2401.10241. ZB-V: Qi et al. 2024, arXiv:2405.15362. DualPipe: DeepSeek-V3,
arXiv:2412.19437; DualPipeV, its half for one copy of the weights: github.com/deepseek-ai/DualPipe.

Each function returns the row of one rank. Every stage takes its micro-batches in order, in each kind of action.
"""

from __future__ import annotations

from collections import deque

from dmc.schedules.table import Action, Kind
from dmc.schedules.whole import staggered


def zero_bubble_h1(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """1F1B whose gradients of weights come later the later the rank: what all ranks keep is what rank 0 keeps."""
    return _delayed(rank, ranks, microbatches, depth=1)


def zero_bubble_h2(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """ZB-H1 with twice the forward passes before the first backward, and twice the delay of gradients of weights."""
    return _delayed(rank, ranks, microbatches, depth=2)


def _delayed(rank: int, ranks: int, microbatches: int, depth: int) -> list[Action]:
    forward, inputs, weights = ([Action(kind, rank, micro) for micro in range(microbatches)] for kind in _SPLIT)
    before = depth * (ranks - rank - 1)
    return staggered((forward, 0), (inputs, before), (weights, before + depth * rank))


def zero_bubble_v(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """Two chunks in a V: all that a rank waits for comes back to it just when it has run out of forward passes."""
    row = _Row((rank, 2 * ranks - 1 - rank), microbatches)
    behind = ranks - rank
    row.turns(2 * behind - 1, "F0")
    row.turns(rank, "F1 F0")
    row.turns(behind, "F1 I1 W1")
    row.turns(microbatches - ranks, "F0 I0 W0 F1 I1 W1")
    row.turns(rank, "I0 I1")
    row.turns(behind, "I0 W0")
    row.turns(2 * rank, "W")
    return row.actions


def dual_pipe_v(rank: int, ranks: int, microbatches: int, chunks: int) -> list[Action]:
    """Two chunks in a V: in the middle, each forward of a chunk stands beside a backward of the other."""
    row = _Row((rank, 2 * ranks - 1 - rank), microbatches)
    behind = ranks - rank - 1
    row.turns(2 * behind, "F0")
    row.turns(rank + 1, "F0 F1")
    row.turns(behind, "I1 W F1")
    row.turns(microbatches - 2 * ranks + rank + 1, "F0 B1 F1 B0")
    row.turns(behind, "B1 F1 B0")
    backward = ["B1", "B0"] * (rank + 1)
    whole, split = backward[: rank + 1], backward[rank + 1 :]
    row.turns(1, " ".join([*whole, *(each.replace("B", "I") for each in split)]))
    row.turns(behind, "W I0")
    row.turns(rank + 1, "W")
    return row.actions


_SPLIT: tuple[Kind, ...] = ("F", "I", "W")


class _Row:
    """A row that is written in words: F1 is the next forward of chunk 1, W the oldest gradient of weights to do."""

    def __init__(self, stages: tuple[int, int], microbatches: int) -> None:
        self.actions: list[Action] = []
        self._stages = stages
        self._forward = [deque(range(microbatches)) for _ in stages]
        self._backward: list[deque[int]] = [deque() for _ in stages]
        self._weights: deque[tuple[int, int]] = deque()

    def turns(self, count: int, words: str) -> None:
        """Writes the words so many times, each where an action for it is left."""
        for word in words.split() * count:
            self._write(word)

    def _write(self, word: str) -> None:
        match word:
            case "W":
                self._take_weights(next(iter(self._weights), None))
            case "W0" | "W1":
                chunk = int(word[1])
                self._take_weights(next((each for each in self._weights if each[0] == chunk), None))
            case _:
                self._take(word[0], int(word[1]))

    def _take_weights(self, entry: tuple[int, int] | None) -> None:
        if entry is not None:
            self._weights.remove(entry)
            self.actions.append(Action("W", self._stages[entry[0]], entry[1]))

    def _take(self, kind: str, chunk: int) -> None:
        source = self._forward[chunk] if kind == "F" else self._backward[chunk]
        if not source:
            return
        micro = source.popleft()
        if kind == "F":
            self._backward[chunk].append(micro)
            self.actions.append(Action("F", self._stages[chunk], micro))
        elif kind == "I":
            self._weights.append((chunk, micro))
            self.actions.append(Action("I", self._stages[chunk], micro))
        else:
            self.actions.append(Action("B", self._stages[chunk], micro))
