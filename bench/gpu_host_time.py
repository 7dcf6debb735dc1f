"""Why a call of a compiled step keeps the host: launches of CUDA graphs of many kinds, and the call, taken apart.

`python -m bench.gpu_host_time --out DIRECTORY` launches synthetic graphs; with `--steps FILE…`, steps that
`bench.gpu_step prepare` or `dmc.compile_artifact(…).write` left, also their own graphs,
graphs that differ from these in one respect each, and each of their functions alone; and it says where their calls
spend their time. It writes
`DIRECTORY/host_time.json`, after each part, and prints a table of the microseconds that launches keep the host
(`bench.cuda_graphs.measured`). What fails is recorded, and the rest goes on. It needs neither torch-mlir nor IREE.
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int, c_void_p
from pathlib import Path
from typing import Any

from bench.cuda_driver import Driver, MemcpyParams, MemsetParams
from bench.cuda_graphs import Graph, measured
from bench.host_calls import call_parts, entries_of, graph_of, launched_graph, opened
from bench.synthetic_graphs import HEAD, MOVE, NODES, Synthetic

LAUNCHES = 60
# Of a real step, which takes milliseconds; and of copies of one of its kernels.
STEP_LAUNCHES, COPIES, COPIES_LAUNCHED = 10, 32, 6
# Of an instantiation.
FLAGS: Mapping[str, int] = {"free automatically": 1, "launched by the device": 4, "priorities of nodes": 8}
COLUMNS = ("nodes", "alone", "worst", "waiting", "queued", "in_turn", "first", "step_ms")
# The attributes without which a kernel of clusters does not work.
CLUSTERS = (2, 4, 5, 11)
Build = Callable[[], Graph]


class Report:
    """What was found so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self.found = path, dict[str, dict[str, Any]]()

    def add(self, part: str, name: str, work: Callable[[], Any]) -> Any:
        """Does some work and keeps its result; one that fails is its error."""
        try:
            result = work()
        except Exception as error:
            # Whatever it is, the rest is measured.
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        self.found.setdefault(part, {})[name] = result
        self._path.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        return result

    def launches(self, part: str, name: str, build: Build, count: int, flags: int = 0, uploads: bool = True) -> None:
        """Measures launches of a graph."""

        def work() -> dict[str, float]:
            graph = build()
            return {"nodes": len(graph.nodes()), **measured(graph, count, flags, uploads)}

        found = self.add(part, name, work)
        print(f"{name:<48}", *(f"{found.get(column, '-'):>9}" for column in COLUMNS), flush=True)


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--steps", nargs="+", type=Path, default=(), help="steps as files, .step or .dmc")
    parser.add_argument("--only-steps", action="store_true", help="no synthetic graphs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    import torch

    torch.zeros(1, device="cuda")
    driver, report = Driver(), Report(options.out / "host_time.json")
    about = {"device": torch.cuda.get_device_name(), "driver": driver.version(), "torch": str(torch.__version__)}
    report.add("machine", "machine", lambda: about)
    if not options.only_steps:
        synthetic(driver, report)
        report.launches("synthetic", "products of PyTorch, captured", lambda: _products(driver, torch), LAUNCHES)
    for path in options.steps:
        of_a_step(driver, path, report)


def of_a_step(driver: Driver, path: Path, report: Report) -> None:
    """The call of a step, and its graph."""
    step = opened(path)
    found = report.add(path.name, "call", lambda: call_parts(step))
    print(json.dumps({key: value for key, value in found.items() if key != "profile"}, indent=1))
    Own(driver, graph_of(driver, step), entries_of(step), report, path.name).measure()
    report.launches(path.name, "as it is launched", lambda: launched_graph(driver, step), STEP_LAUNCHES)
    step.close()


def synthetic(driver: Driver, report: Report) -> None:
    """Graphs of kernels that do nothing."""
    graphs = Synthetic(driver)
    print(json.dumps(report.add("synthetic", "costs", graphs.costs), indent=1))
    print(f"{'':<48}", *(f"{column:>9}" for column in COLUMNS))
    report.launches("synthetic", "line", graphs.line, LAUNCHES)
    report.launches("synthetic", "line, not uploaded", graphs.line, LAUNCHES, uploads=False)
    for name, flags in FLAGS.items():
        report.launches("synthetic", f"line, {name}", graphs.line, LAUNCHES, flags)
    for name, build in graphs.cases():
        report.launches("synthetic", name, build, LAUNCHES)


class Own:
    """The graph of a step: what is in it, and what launches of it and of graphs made of it cost."""

    def __init__(self, driver: Driver, graph: Graph, entries: set[str], report: Report, part: str) -> None:
        self._driver, self._graph, self._report, self._part = driver, graph, report, part
        self._nodes = graph.nodes()
        (self._move,) = driver.functions(HEAD + MOVE, ["move"])
        self._known = {node: _described(driver, graph, node) for node in self._nodes}
        self._kernels = [node for node in self._nodes if self._known[node]["kind"] == "kernel"]
        self._ours = [node for node in self._kernels if self._known[node]["name"] in entries]

    def measure(self) -> None:
        """All of it."""
        self._report.add(self._part, "edges", lambda: _edges(self._graph))
        self._report.add(self._part, "nodes", lambda: list(self._known.values()))
        kernels, ours = self._kernels, self._ours
        print(f"{self._part:<48}", *(f"{column:>9}" for column in COLUMNS))
        self._run("as captured", lambda: self._graph)
        self._run("as captured, not uploaded", lambda: self._graph, uploads=False)
        self._run("a line", lambda: self._line(self._nodes))
        others = [node for node in self._nodes if node not in kernels]
        self._run("a line, copies last", lambda: self._line([*kernels, *others]))
        self._run("a line, copies by kernels", lambda: self._line(self._nodes, moves=True))
        self._run("a line of the kernels", lambda: self._line(kernels))
        self._run("the same with the attributes of clusters", lambda: self._line(kernels, attributes=False))
        self._run("a line of the library's kernels", lambda: self._line([n for n in kernels if n not in ours]))
        self._run("a line of our kernels", lambda: self._line(ours))
        for quarter in (1, 2, 3):
            self._run(f"{quarter}/4 of these", lambda q=quarter: self._line(ours[: len(ours) * q // 4]))
        for node in {self._known[node]["function"]: node for node in reversed(kernels)}.values():
            about = self._known[node]
            name = f"{COPIES} {about['name'][:28]} ({about['parameter_bytes']} B)"
            self._report.launches(self._part, name, lambda n=node: self._line([n] * COPIES), COPIES_LAUNCHED)
        for name, flags in FLAGS.items():
            self._run(f"as captured, {name}", lambda: self._graph, flags)
            self._run(f"a line, copies by kernels, {name}", lambda: self._line(self._nodes, moves=True), flags)

    def _run(self, name: str, build: Build, flags: int = 0, uploads: bool = True) -> None:
        self._report.launches(self._part, name, build, STEP_LAUNCHES, flags, uploads)

    def _line(self, chosen: Sequence[int], attributes: bool = True, moves: bool = False) -> Graph:
        """These nodes, one after the other. attributes: whether all of them. moves: whether kernels copy."""
        made, last = Graph(self._driver), list[int]()
        for node in chosen:
            given = self._graph.given(node)
            if given is None:
                continue
            if moves and isinstance(given, MemcpyParams):
                last = [made.move(self._move, given, last)]
                continue
            last = [made.add(given, last)]
            if self._known[node]["kind"] == "kernel":
                self._copy_attributes(node, last[0], attributes)
        return made

    def _copy_attributes(self, source: int, target: int, every: bool) -> None:
        """every: whether not only those without which a kernel of clusters does not work."""
        if every:
            self._driver.call("cuGraphKernelNodeCopyAttributes", c_void_p(target), c_void_p(source))
            return
        for number in CLUSTERS:
            if any(value := self._graph.attribute(source, number)):
                self._driver.call("cuGraphKernelNodeSetAttribute", c_void_p(target), c_int(number), value)


def _edges(graph: Graph) -> dict[str, Any]:
    edges = graph.edges()
    several = {
        name: sum(ends.count(node) > 1 for node in set(ends))
        for name, ends in (("dependents", [e[0] for e in edges]), ("dependencies", [e[1] for e in edges]))
    }
    typed = [data for _, _, data in edges if any(data)]
    return {"edges": len(edges), "not of the default type": typed, "nodes with several": several}


def _described(driver: Driver, graph: Graph, node: int) -> dict[str, Any]:
    given, about = graph.given(node), {"kind": graph.kind(node)}
    if given is None:
        return about
    if isinstance(given, MemsetParams):
        return {**about, "bytes": given.item * given.width * given.height}
    if isinstance(given, MemcpyParams):
        return {**about, "bytes": given.width, "types": [given.source.type, given.target.type]}
    return {**about, **driver.described(given), "attributes": graph.attributes(node)}


def _products(driver: Driver, torch: Any) -> Graph:
    """Products by the library that PyTorch uses."""
    a, b, c = (torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    stream = torch.cuda.Stream()
    handle = c_void_p(stream.cuda_stream)
    with torch.cuda.stream(stream):
        torch.mm(a, b, out=c)
        torch.cuda.synchronize()
        driver.begin_capture(handle)
        for _ in range(NODES):
            torch.mm(a, b, out=c)
        return Graph(driver, driver.end_capture(handle))


if __name__ == "__main__":
    main()
