"""The stage of each operation of a step, and of each tensor of its state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.dialect.labels import module_path
from dmc.errors import DmcError
from dmc.passes.scheduled.split_stages.flow import Flow, is_backward, size_of
from dmc.program.labels import BACKWARD


@dataclass
class Assignment:
    """stages: of each operation but those that each rank makes for itself, whose values are `free`. owners: of each
    argument that one stage alone has. backward: the operations of the backward pass.
    """

    flow: Flow
    free: set[ir.Value]
    stages: dict[ir.Operation, int] = field(default_factory=dict[ir.Operation, int])
    owners: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    backward: set[ir.Operation] = field(default_factory=set[ir.Operation])

    @staticmethod
    def of(flow: Flow, cut: Sequence[str]) -> Assignment:
        """Assigns each operation to a stage; `cut`: the modules with which the second stage and later ones begin.

        The forward pass is cut where the first operation of such a module stands. A module's gradient belongs to its
        stage; what several stages or none may compute goes where its largest operand is. Gradients flow from later
        stages to earlier ones only. An optimizer's state is where its parameter is, and that where it is first read.
        Raises DmcError for a module that computes nothing, or not in this order.
        """
        found = Assignment(flow, flow.free())
        found._forward(cut)
        found._backward()
        found._update()
        found._float()
        found._own()
        return found

    def is_free(self, op: ir.Operation) -> bool:
        """Whether each rank that needs it runs an operation by itself."""
        return len(op.results) > 0 and self.free.issuperset(op.results)

    def stage_of(self, value: ir.Value) -> int | None:
        """The stage that has a value first; None for a free one, and while that is not known."""
        if value in self.free:
            return None
        if (carried := self.flow.carried(value)) is not None:
            value = carried[1]
        maker = self.flow.makers.get(value)
        return self.owners.get(value) if maker is None else self.stages.get(maker)

    def _forward(self, cut: Sequence[str]) -> None:
        """Operations on activations, by their place; others after their operands."""
        of_batch, begun = self.flow.of_batch(), 0
        for op in self.flow.inside:
            path = module_path(op.location)
            if self.is_free(op) or is_backward(op) or of_batch.isdisjoint(op.results):
                continue
            begun = _begun(op, path, cut, begun)
            if path or self._most(op) is not None:
                self.stages[op] = max([begun if path else 0, *self._known(op)])
        if begun < len(cut):
            hint = "cut where a module begins that computes with the batch"
            raise DmcError(f"module '{cut[begun]}'", "computes nothing in the forward pass", hint)

    def _backward(self) -> None:
        """Gradients, by their module; what no module or several say, by what they are computed of."""
        places: defaultdict[str, set[int]] = defaultdict(set)
        for op, stage in list(self.stages.items()):
            names = module_path(op.location).split(".")
            for count in range(len(names)):
                places[".".join(names[: count + 1])].add(stage)
        for op in self.flow.inside:
            gradients = [self.stages[maker] for maker in self._makers(op) if maker in self.backward]
            if self.is_free(op) or not (is_backward(op) or gradients):
                continue
            own = places.get(module_path(op.location).removesuffix(BACKWARD), set[int]())
            if known := [*(own if len(own) == 1 else ()), *gradients] or sorted(self._known(op))[-1:]:
                self.stages[op] = min(known)
                self.backward.add(op)

    def _update(self) -> None:
        """Behind the micro-batches an operation is where its largest operand is."""
        for op in self.flow.after:
            if not self.is_free(op) and (stage := self._most(op)) is not None:
                self.stages[op] = stage

    def _float(self) -> None:
        """What depends on state alone is where it is read first."""
        readers = self._readers()
        for op in reversed(list(self.flow.ops)):
            if op in self.stages or self.is_free(op):
                continue
            read = (reader for result in op.results for reader in readers[result])
            self.stages[op] = next((self.stages[each] for each in read if each in self.stages), 0)

    def _own(self) -> None:
        """State belongs to the stage that reads it first, unless that is decided."""
        readers = self._readers()
        for value in self.flow.ports:
            if not self.flow.is_shared(value):
                first = next((self.stages[op] for op in readers[value] if op in self.stages), 0)
                self.owners[value] = self.flow.homes.get(value, first)

    def _known(self, op: ir.Operation) -> list[int]:
        stages = [self.stage_of(value) for value in outer_reads(op)]
        return [stage for stage in stages if stage is not None]

    def _most(self, op: ir.Operation) -> int | None:
        """The stage of the largest operand whose stage is known; of equal ones the last."""
        staged = [(size_of(value), self.stage_of(value)) for value in outer_reads(op)]
        return max(((size, stage) for size, stage in staged if stage is not None), default=(0, None))[1]

    def _makers(self, op: ir.Operation) -> Iterator[ir.Operation]:
        makers = (self.flow.makers.get(value) for value in outer_reads(op))
        return (maker for maker in makers if maker is not None)

    def _readers(self) -> Mapping[ir.Value, list[ir.Operation]]:
        """The operations that read each value, in order, also through what the loop carries."""
        found: defaultdict[ir.Value, list[ir.Operation]] = defaultdict(list)
        for op in self.flow.ops:
            for value in outer_reads(op):
                for each in self._sources(value):
                    found[each].append(op)
        return found

    def _sources(self, value: ir.Value) -> Iterable[ir.Value]:
        carried = self.flow.carried(value)
        return (value,) if carried is None else carried


def _begun(op: ir.Operation, path: str, cut: Sequence[str], begun: int) -> int:
    """The number of stages begun, once an operation of the forward pass is computed. Raises DmcError as `of` does."""
    found = [number for number in range(begun, len(cut)) if _is_inside(path, cut[number])]
    if found and found[0] > begun:
        fact = f"module '{cut[found[0]]}' runs before module '{cut[begun]}'"
        raise DmcError(op, fact, "list the modules in the order in which the forward pass runs them")
    return begun + len(found)


def _is_inside(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")
