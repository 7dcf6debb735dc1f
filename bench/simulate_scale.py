"""How long the simulator takes: a data-parallel GPT of 12 to 96 layers, played for 2, 8 and 1024 ranks.

`python -m bench.simulate_scale` prints seconds and the predicted step, and writes `bench/results/simulate_scale.json`.
The jobs are planned for 2 or 8 ranks, and played rank by rank or grown to 1024. The claim: 1024 ranks take less than a
minute, and time grows with the number of commands.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.gpt_job import Shape, gpt_job
from bench.record import write_record
from dmc.machine import cost_table_hash, machine
from dmc.simulator import simulate
from dmc.simulator.use import waits

MACHINE = "node8"
DEPTHS = (12, 24, 48, 96)
# Ranks planned for, ranks played for.
CASES = ((2, 2), (8, 8), (2, 1024), (8, 1024))
RESULTS = Path(__file__).parent / "results" / "simulate_scale.json"


def measure(layers: int, planned: int, played: int) -> dict[str, float]:
    """Commands of the job, seconds to play it, and what came out of it."""
    job = gpt_job(Shape(layers), planned)
    node = machine(MACHINE)
    begin = time.perf_counter()
    simulation = simulate(job, node, ranks=played)
    seconds = time.perf_counter() - begin
    exposed = max(rank.communication for rank in waits(simulation))
    return {
        "layers": layers,
        "planned": planned,
        "played": played,
        "commands": sum(len(program.commands) for program in job.programs),
        "seconds": round(seconds, 3),
        "step_ms": round(simulation.step_ns / 1e6, 3),
        "exposed_ms": round(exposed / 1e6, 3),
    }


def main() -> None:
    """Measures each case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = [measure(layers, planned, played) for layers in DEPTHS for planned, played in CASES]
    table = Table(*found[0])
    for row in found:
        table.add_row(*map(str, row.values()))
    Console(width=120).print(table)
    write_record(options.out, {"machine": MACHINE, "costs": cost_table_hash(machine(MACHINE)), "cases": found})


if __name__ == "__main__":
    main()
