"""`python -m bench.halves --against COMMIT`: broker CPU per half message of this checkout, relative to an earlier commit, in one run.

Each cluster has one broker. Each round writes the same number of half messages on both, in changing order, commits each one when it is stored, and reads the
topic until every message was delivered (the client of `bench.rocketmq_halves`). The CPU of the clients is not included. A ratio belongs to one round. A second
cluster of the earlier commit is the control: its ratio shows the precision.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.against import checkout
from bench.lookup import OtherTree
from bench.paired import bootstrap_median, ratios
from bench.peer.systems import Weir
from bench.rocketmq_halves import Run, weir_run
from bench.shares import Earlier


class Control(OtherTree):
    name = "control"


def run_rounds(systems: list[Weir], given: argparse.Namespace) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {system.name: [] for system in systems}
    for round_ in range(given.rounds):
        shift = round_ % len(systems)
        for system in systems[shift:] + systems[:shift]:
            run = weir_run(system, f"halves-{round_}", given, given.messages, given.rate)
            found[system.name].append(run)
            print(
                f"round {round_ + 1}, {system.name:<8} {given.messages / run.seconds:>7,.0f}/s, {run.cpu_us:>6.1f} us of broker CPU"
                f"  [load {os.getloadavg()[0]:.1f}]",
                flush=True,
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.halves", description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", required=True, help="the earlier commit, or a work tree of it")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--messages", type=int, default=30_000, help="messages of a pass")
    parser.add_argument("--in-progress", type=int, default=64, help="messages without a commit at a time")
    parser.add_argument("--rate", type=int, default=0, help="messages per second; 0: no limit")
    parser.add_argument("--bytes", type=int, default=100, help="bytes of a value")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-halves-")))
        built = Path(given.against).resolve()
        tree = built if built.is_dir() else stack.enter_context(checkout(given.against))
        systems = [Weir(folder / "now", 1), Earlier(folder / "earlier", tree), Control(folder / "control", tree)]
        for system in systems:
            stack.callback(system.close)
            system.folder.mkdir()
            system.start()
        found = run_rounds(systems, given)
    now, earlier, control = (found[system.name] for system in systems)
    columns = {
        "broker CPU per message": [[run.cpu_us for run in runs] for runs in (now, earlier, control)],
        "seconds": [[run.seconds for run in runs] for runs in (now, earlier, control)],
    }
    for title, (ours, then, again) in columns.items():
        print(f"{title}: now / earlier {bootstrap_median(ratios(ours, then))}")
        print(f"{title}: control / earlier {bootstrap_median(ratios(again, then))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
