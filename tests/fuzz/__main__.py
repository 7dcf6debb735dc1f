"""`python -m tests.fuzz --minutes 60 --jobs 2`: see the package."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from tests.fuzz.campaign import Campaign, Find, Tally
from tests.fuzz.operators import EVERY


def main() -> int:
    """Runs a campaign and prints its results; returns 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--share-cpu", type=float, default=0.1, help="of the programs that are compiled as well")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where finds and the summary are written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)

    def told(find: Find) -> None:
        path = given.out / f"find_{find.seed}_{find.way}.py"
        path.write_text(find.text, encoding="utf-8")
        print(f"--- {path}: {find.verdict.outcome}: {find.verdict.text.strip()}\n{find.text}", flush=True)

    begin = time.monotonic()
    campaign = Campaign(given.seed, 60 * given.minutes, given.jobs, given.share_cpu, told)
    tally = campaign.run()
    summary = summarised(tally, time.monotonic() - begin)
    (given.out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    print(told_in_words(tally, time.monotonic() - begin))
    return int(bool(tally.finds))


def summarised(tally: Tally, seconds: float) -> dict[str, object]:
    """The numbers of a campaign."""
    return {
        "seconds": round(seconds),
        "outcomes": dict(tally.outcomes),
        "refusals": dict(tally.refusals.most_common()),
        "operators": dict(tally.operators.most_common()),
        "never reached": never_reached(tally),
        "finds": {kind: [find.seed for find in finds] for kind, finds in tally.finds.items()},
    }


def never_reached(tally: Tally) -> list[str]:
    """Operators of the table that no program had which agrees with eager."""
    return [name for name in EVERY if name not in tally.operators]


def told_in_words(tally: Tally, seconds: float) -> str:
    """The same for people."""
    tried = sum(count for name, count in tally.outcomes.items() if name.startswith("interpreter"))
    lines = [f"{tried} programs in {seconds:.0f} s ({tried / seconds:.1f} a second)"]
    lines += [f"  {count:6} {name}" for name, count in tally.outcomes.most_common()]
    lines += ["refused:", *(f"  {count:6} {reason}" for reason, count in tally.refusals.most_common())]
    reached = len(EVERY) - len(never_reached(tally))
    lines.append(f"operators in programs that agree: {reached} of {len(EVERY)}")
    lines.append(f"  {', '.join(f'{name} {count}' for name, count in tally.operators.most_common())}")
    lines.append(f"never: {', '.join(never_reached(tally))}")
    lines.append(f"kinds of finds: {len(tally.finds)}")
    counts = {kind: len(finds) + tally.repeats[kind] for kind, finds in tally.finds.items()}
    lines += [f"  {counts[kind]:4} {kind} (seed {finds[0].seed})" for kind, finds in tally.finds.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
