"""What may be computed by one kernel, whoever decides what is: the greedy fusion and the integer program ask here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dmc.analysis.kernels.cost import has_function
from dmc.analysis.kernels.graph import Graph
from dmc.analysis.kernels.groups import Group, why_not_summed
from dmc.analysis.kernels.reads import ORDER
from dmc.analysis.kernels.shapes import Loops
from dmc.analysis.kernels.traded import Traded
from dmc.memo import Memo

# What leaves memory ranks higher than what is read once less, by this share: statistics beside a tensor do not decide.
GONE = 32


class Rules(ABC):
    """Whether two kernels can be fused.

    groups: the kernels, by number. held: values that the step returns. turning: values that an operation writes from
    what it reads in another order. functions: the operations that compute functions where dmc's own code computes the
    kernels (`own`), which fuses them in other ways. The methods that are abstract say how kernels are related.
    """

    def __init__(self, graph: Graph, nodes: Sequence[int], most_values: int, own: bool) -> None:
        self.graph, self.nodes, self.most_values, self.own = graph, nodes, most_values, own
        self.functions = {number for number in nodes if own and graph.fact(has_function, number)}
        self.values, self._joined = Traded(), Memo[tuple[Loops, Loops], Loops | str]()
        self.held = {self.values.number(graph.base(value)) for value in graph.returned}
        self.turning: set[int] = set()
        self.groups: dict[int, Group] = {}

    def joined(self, one: Loops, other: Loops) -> Loops | str:
        """The loops of two kernels in one; see `Loops.joined`."""
        return self._joined.of((one, other), Loops.joined, one, other, self.own)

    @abstractmethod
    def kept_apart(self, first: int, second: int) -> str:
        """What keeps two kernels apart, whatever else they are fused with."""

    @abstractmethod
    def is_next(self, first: int, second: int) -> bool:
        """Whether the second kernel reads what the first writes."""

    @abstractmethod
    def is_wanted(self, value: int, first: int, second: int) -> bool:
        """Whether anything but two kernels needs a value."""

    @abstractmethod
    def is_turned(self, value: int, reader: int) -> bool:
        """Whether a kernel reads a value in another order than it is written."""

    @abstractmethod
    def delays(self, early: int, late: int) -> bool:
        """Whether others that read the results of one kernel would wait for a movement for which the other waits."""

    @abstractmethod
    def is_summed_over_columns(self, epilogue: int) -> bool:
        """Whether a kernel that sums over columns reads the results of a kernel."""

    def saved(self, first: int, second: int, ranked: bool = False) -> int:
        """The bytes saved by fusing two kernels. ranked: as fusions are ordered, see `GONE`."""
        one, other, bytes_ = self.groups[first], self.groups[second], self.values.bytes
        saved = sum(map(bytes_.__getitem__, one.reads & other.reads))
        for value in one.writes & other.reads:
            is_wanted = self.is_wanted(value, first, second)
            saved += bytes_[value] if is_wanted else 2 * bytes_[value] + ranked * bytes_[value] // GONE
        return saved

    def traded(self, first: int, second: int) -> tuple[set[int], set[int]]:
        """What two kernels would read and write together."""
        one, other = self.groups[first], self.groups[second]
        made = one.writes | other.writes
        writes = {value for value in made if self.is_wanted(value, first, second)}
        return (one.reads | other.reads) - made, writes

    def why_not(self, first: int, second: int) -> str:
        """Why two kernels cannot be fused, apart from cycles."""
        if why := self.kept_apart(first, second):
            return why
        one, other = self.groups[first], self.groups[second]
        if one.loops is None or other.loops is None:
            return "a kernel of its own"
        loops = self.joined(one.loops, other.loops)
        if isinstance(loops, str):
            return loops
        if not self.is_next(first, second) and not self._are_siblings(first, second):
            return "no loops in common"
        reads, writes = self.traded(first, second)
        if self.delays(first, second) or self.delays(second, first):
            return "a result that others read before a movement arrives"
        if len(reads) + len(writes) > self.most_values:
            return f"more than {self.most_values} operands and results"
        if why := why_not_summed(loops, one, other, self.functions, writes):
            return why
        computes = not self.functions.isdisjoint((*one.members, *other.members))
        if any(not loops.may_give(self.values.elements[value], computes) for value in writes):
            return "a result that is read elsewhere"
        if loops.product and not self._is_epilogue(first, second, writes):
            return "a result that does not depend on the product"
        # What an epilogue already reads would be written and read between them. And the library's products are faster
        # than those with an epilogue, most of all with one that computes long: where a bias's gradient reads a function
        # after a product, that is better fused with the gradient's sums over columns.
        if one.loops.product and computes and not loops.columns and self.is_summed_over_columns(second):
            return "a function whose results are summed over columns"
        turned = [value for value in one.writes if self.is_turned(value, second)]
        if turned and (loops.rows or loops.columns or loops.product or any(value in writes for value in turned)):
            return ORDER
        if (loops.rows or loops.columns) and any(value in self.turning for value in writes):
            return ORDER
        return ""

    def _are_siblings(self, first: int, second: int) -> bool:
        """Whether two independent kernels iterate over one tensor in the same loops."""
        one, other = self.groups[first], self.groups[second]
        if any(value in self.turning for value in one.writes | other.writes):
            return False
        return one.is_beside(other, self.own)

    def _is_epilogue(self, first: int, second: int, writes: set[int]) -> bool:
        """Whether a kernel with a product computes all its results behind it."""
        one, other = self.groups[first], self.groups[second]
        assert one.loops is not None
        if self.own and (one.loops.product or not self.is_next(first, second)):
            return True
        if not one.loops.product:
            return not any(value in writes for value in one.writes)
        after = set(one.writes)
        for number in sorted(other.members):
            if any(self.values.number(self.graph.base(value)) in after for value in self.graph.reads[number]):
                after.update(map(self.values.number, self.graph.ops[number].results))
        return all(value in after for value in writes)
