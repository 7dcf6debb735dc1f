"""Tables from files: read, written, refused by name where they are no schedules; mutants against a second opinion."""

from __future__ import annotations

import itertools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.errors import PlanError
from dmc.schedules import Action, Table, check, read_csv, schedule, write_csv

GOOD = "0F0,0F1,,0I0,0W0,0B1\n,1F0,1B0,1F1,1B1\n"
TABLES = [
    *(("gpipe", 3, 3, 1), ("1f1b", 3, 4, 1), ("1f1b", 4, 4, 1), ("interleaved", 2, 4, 2), ("bfs", 2, 3, 3)),
    *(("zb-h1", 3, 4, 1), ("zb-h2", 3, 5, 1), ("zb-v", 2, 4, 2), ("dualpipev", 2, 4, 2)),
]


def test_a_file_is_read_and_written(tmp_path: Path) -> None:
    table = read_csv(GOOD)
    assert table.ranks_of == (0, 1)
    assert table.rows[1] == (None, Action("F", 1, 0), Action("B", 1, 0), Action("F", 1, 1), Action("B", 1, 1))
    assert table.row(1) == table.rows[1][1:]
    assert (table.stages, table.microbatches, table.ranks) == (2, 2, 2)
    check(table, 2, 2)
    assert write_csv(table) == GOOD
    path = tmp_path / "schedule.csv"
    path.write_text(GOOD.replace(",", ", "))
    assert read_csv(path) == read_csv(str(path)) == table


@pytest.mark.parametrize("named", TABLES, ids=str)
def test_named_schedules_come_back_from_their_files(named: tuple[str, int, int, int]) -> None:
    table = schedule(*named)
    assert read_csv(write_csv(table)) == table


@pytest.mark.parametrize(
    ("cell", "fact"),
    [
        ("0F", "is no action"),
        ("0X1", "is no action"),
        ("F0", "is no action"),
        ("-1F0", "is no action"),
        ("1SEND_F1", r"is an action of PyTorch's lowered form \(SEND_F\)"),
        ("1RECV_F1", r"lowered form \(RECV_F\)"),
        ("1SEND_B1", r"lowered form \(SEND_B\)"),
        ("1RECV_B1", r"lowered form \(RECV_B\)"),
        ("1UNSHARD", r"lowered form \(UNSHARD\)"),
        ("1RESHARD", r"lowered form \(RESHARD\)"),
        ("1REDUCE_GRAD", r"lowered form \(REDUCE_GRAD\)"),
        ("(1F1;0B0)OVERLAP_F_B", r"is a pair of overlapped actions \(OVERLAP_F_B\)"),
    ],
)
def test_cells_that_are_no_actions_are_refused(cell: str, fact: str) -> None:
    with pytest.raises(PlanError, match=rf"^row 1, column 3, '{re.escape(cell)}': .*{fact}\n  hint: "):
        read_csv(GOOD.replace("1F1", cell))


def test_files_without_a_schedule_are_refused() -> None:
    with pytest.raises(PlanError, match=r"^schedule 'nowhere.csv': there is no such file"):
        read_csv("nowhere.csv")
    with pytest.raises(PlanError, match=r"^schedule: has no action"):
        read_csv(",\n")
    with pytest.raises(PlanError, match=r"^row 1, column 1, 3F0: stage 3 has an action, and stage 1 has none"):
        read_csv("0F0,0B0\n2F0,3F0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("0F1", ""), "rank 0, 0F1, forward of stage 0, micro-batch 1: is missing"),
        (GOOD.replace("1B0", ""), "rank 1, 1B0, backward of stage 1, micro-batch 0: is missing"),
        (GOOD.replace("0I0", ""), "rank 0, 0I0, gradient of inputs of stage 0, micro-batch 0: is missing"),
        (GOOD.replace("0W0", ""), "rank 0, 0W0, gradient of weights of stage 0, micro-batch 0: is missing"),
        (GOOD.replace("1B1", "1B1,1B1"), "rank 1, column 5, 1B1, backward of stage 1, micro-batch 1: stands twice"),
        (
            GOOD.replace("0B1", "0B1,1F0"),
            "rank 1, column 1, 1F0, forward of stage 1, micro-batch 0: stage 1 is on rank 0",
        ),
        (
            GOOD.replace("1B1", "1B1,0W1"),
            "rank 1, column 5, 0W1, gradient of weights of stage 0, micro-batch 1: stage 0 is",
        ),
        (
            GOOD.replace("1F1", "1F2"),
            "rank 1, column 3, 1F2, forward of stage 1, micro-batch 2: there is no micro-batch 2",
        ),
        (
            GOOD.replace("0B1", "0B1,0W1"),
            "rank 0, column 6, 0W1, gradient of weights of stage 0, micro-batch 1: stands beside",
        ),
        (
            GOOD.replace("0I0,0W0", "0W0,0I0"),
            "rank 0, column 3, 0W0, gradient of weights of stage 0, micro-batch 0: stands before 0I0",
        ),
        (
            GOOD.replace("1F0,1B0", "1B0,1F0"),
            "rank 1, column 1, 1B0, backward of stage 1, micro-batch 0: stands before 1F0",
        ),
        (GOOD + "2F0,2B0,2F1,2B1", "schedule: the table has 3 stages, the model 2 stages"),
        (GOOD.replace("\n", "\n,\n", 1), "rank 1: has no action"),
    ],
)
def test_tables_that_are_no_schedules_are_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        check(read_csv(text), 2, 2)
    assert message in str(error.value)
    assert error.value.hint


def test_stages_that_the_model_lacks_are_refused() -> None:
    table = read_csv(GOOD)
    with pytest.raises(PlanError, match=r"rank 0, column 1, 0F1, .*: there is no micro-batch 1"):
        check(table, 2, 1)
    with pytest.raises(PlanError, match=r"rank 0, 0F2, forward of stage 0, micro-batch 2: is missing"):
        check(table, 2, 3)
    with pytest.raises(PlanError, match=r"rank 1, column 1, 1F0, .*: there is no stage 1\n"):
        check(Table(table.rows, (0,)), 1, 2)
    with pytest.raises(PlanError, match=r"stage 1: is on rank 2, and the table has 2 rows"):
        check(Table(table.rows, (0, 2)), 2, 2)


def test_a_deadlock_says_what_each_rank_waits_for() -> None:
    # Each rank has its actions in an order of its own that would do, but they wait for each other.
    with pytest.raises(PlanError) as error:
        check(read_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"), 2, 2)
    assert "rank 0, 0B0, backward of stage 0, micro-batch 0: a deadlock, every rank waits" in str(error.value)
    assert "rank 0 in 0B0 for 1B0 of rank 1; rank 1 in 1F1 for 0F1 of rank 0" in str(error.value)


_Rows = list[list[str]]


def _mutant(rows: _Rows, draw: st.DataObject) -> set[str]:
    """Changes one thing; returns the names of which an error must say one."""
    rank = draw.draw(st.sampled_from([rank for rank, row in enumerate(rows) if any(row)]))
    row = rows[rank]
    column = draw.draw(st.sampled_from([column for column, cell in enumerate(row) if cell]))
    cell = row[column]
    stage, kind, micro = re.split(r"([FBIW])", cell)
    change = draw.draw(st.sampled_from(["drop", "double", "swap", "stage", "micro", "kind", "move"]))
    if change == "drop":
        row[column] = ""
        return {cell}
    if change == "double":
        row.insert(draw.draw(st.integers(0, len(row))), cell)
        return {cell}
    if change == "swap":
        other = draw.draw(st.integers(0, len(row) - 1))
        row[column], row[other] = row[other], row[column]
        return {f"rank {rank}"}
    if change == "move":
        target = rows[draw.draw(st.integers(0, len(rows) - 1))]
        target.insert(draw.draw(st.integers(0, len(target))), row.pop(column))
        return {cell, f"stage {stage}", f"rank {rank}"}
    number = st.integers(0, 7)
    changed = {
        "stage": f"{draw.draw(number)}{kind}{micro}",
        "micro": f"{stage}{kind}{draw.draw(number)}",
        "kind": f"{stage}{draw.draw(st.sampled_from('FBIW'))}{micro}",
    }[change]
    row[column] = changed
    return {cell, changed, f"stage {stage}", changed[: -1 - len(micro)]}


def _is_schedule(rows: _Rows, stages: int, microbatches: int) -> bool:
    """A second opinion, from the definition: the right actions, a stage in one row, and a graph without a cycle."""
    cells = [(rank, cell) for rank, row in enumerate(rows) for cell in row if cell]
    for stage in range(stages):
        if len({rank for rank, cell in cells if int(re.split("[FBIW]", cell)[0]) == stage}) != 1:
            return False
    written = sorted(cell for _, cell in cells)
    expected: list[str] = []
    for pair in ((stage, micro) for stage in range(stages) for micro in range(microbatches)):
        names = ["{}F{}", "{}B{}"] if "{}B{}".format(*pair) in written else ["{}F{}", "{}I{}", "{}W{}"]
        expected += [name.format(*pair) for name in names]
    if written != sorted(expected) or not all(any(row) for row in rows):
        return False
    graph: dict[str, set[str]] = {cell: set() for cell in written}
    for row in rows:
        actions = [cell for cell in row if cell]
        for before, after in itertools.pairwise(actions):
            graph[after].add(before)
    for cell in written:
        stage, micro = (int(number) for number in re.split("[FBIW]", cell))
        wanted = {
            "F": [f"{stage - 1}F{micro}"],
            "W": [f"{stage}I{micro}"],
        }.get(cell.strip("0123456789"), [f"{stage}F{micro}", f"{stage + 1}I{micro}", f"{stage + 1}B{micro}"])
        graph[cell] |= {name for name in wanted if name in graph}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True


def test_mutants_are_refused_by_name_where_they_are_no_schedules() -> None:
    refused: list[str] = []
    valid: list[str] = []

    @settings(max_examples=600, deadline=None, derandomize=True, database=None)
    @given(st.sampled_from(TABLES), st.data())
    def mutate(named: tuple[str, int, int, int], draw: st.DataObject) -> None:
        _, ranks, microbatches, chunks = named
        rows = [line.split(",") for line in write_csv(schedule(*named)).splitlines()]
        names = _mutant(rows, draw)
        text = "".join(f"{','.join(row)}\n" for row in rows)
        if _is_schedule(rows, ranks * chunks, microbatches):
            check(read_csv(text), ranks * chunks, microbatches)
            valid.append(text)
            return
        with pytest.raises(PlanError) as error:
            check(read_csv(text), ranks * chunks, microbatches)
        assert any(name in str(error.value) for name in names), (names, str(error.value))
        refused.append(text)

    mutate()
    assert len(set(refused)) >= 200
    assert len(set(valid)) >= 10, "some changes do no harm"
