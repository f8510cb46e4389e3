"""`python -m bench.against COMMIT`: broker CPU per GB of this checkout, relative to an earlier commit, in one run.

Two clusters are up at the same time, one of each version. Each round runs each row on both, one directly after the other, in changing order, and gives
one ratio per row. The result is the median of the ratios. So a change of the machine's speed within a run counts for both. A second cluster of
the earlier commit is the control: its ratio shows the precision. All use this environment's Python packages and this checkout's clients.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.__main__ import ROOT, Case, local_cluster, one_pass

PORT_BASE = 24_390
PORTS = 40
"""Ports between two clusters."""
CASES = [
    (Case(size, batch, replicas), megabytes)
    for replicas, (size, megabytes), batch in itertools.product((1, 3), ((100, 100), (1024, 300)), (16_384, 1_000_000))
]
"""The rows of `make bench`, with the megabytes of values of one pass."""
READS = 6
"""Times that a pass consumes its records: once needs 40 to 100 ms of CPU, of which the start of the consumer is a large part."""
NOW, EARLIER, CONTROL = "now", "earlier", "control"


@dataclass(frozen=True, slots=True)
class Version:
    """A running cluster."""

    bootstrap: str
    brokers: dict[int, int]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary work tree of `commit`."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-tree-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            compile_modules(tree)
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def compile_modules(tree: Path) -> None:
    """Compiles what `make setup` compiles in a checkout of that commit."""
    for module in ("brokerd.wire.compile", "brokerd.compiled.build"):
        if (tree / f"{module.replace('.', '/')}.py").exists():
            subprocess.run([sys.executable, "-m", module, "--optional"], cwd=tree, check=True)


def compared(versions: dict[str, Version], rounds: int, only: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Per row its name, and for each version CPU seconds per GB by round."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-control-") as folder:
        for case, megabytes in CASES:
            name = f"{case.record_bytes} B, {case.batch_bytes} B batches, RF {case.replicas}"
            if only not in name:
                continue
            count = int(megabytes * 1e6 / case.record_bytes)
            measurements: dict[str, dict[str, list[float]]] = {
                a: {v: [] for v in versions} for a in ("produce", "consume")
            }
            for round_ in range(-1, rounds):  # the first one is a warm-up
                order = [*versions]
                shift = round_ % len(order)
                for key in order[shift:] + order[:shift]:
                    v = versions[key]
                    topic = f"against-{case.replicas}-{case.record_bytes}-{case.batch_bytes}-{round_ + 1}"
                    done = one_pass(v.bootstrap, v.brokers, topic, case, count, Path(folder), READS)
                    if round_ >= 0:
                        for act, one in done.items():
                            measurements[act][key].append(one.cpu)
            for act, by_version in measurements.items():
                yield f"{act}, {name}", by_version


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("commit", help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.03, help="ratio above which a row counts as worse")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    arguments = parser.parse_args()
    worse = 0
    with ExitStack() as stack:
        tree = stack.enter_context(checkout(arguments.commit))
        versions = {}
        for n, (key, root) in enumerate(((NOW, ROOT), (EARLIER, tree), (CONTROL, tree))):
            cluster_info, brokers, _ = stack.enter_context(local_cluster(PORT_BASE + n * PORTS, tree=root))
            versions[key] = Version(cluster_info["bootstrap"], brokers)
        print(f"{arguments.rounds} rounds, load of the machine {os.getloadavg()[0]:.1f} after the start")
        print(f"{'row':<50} {'now':>6} {'then':>6} {'ratio':>7} {'control':>8}")
        for name, measurements in compared(versions, arguments.rounds, arguments.only):
            then = [(a + b) / 2 for a, b in zip(measurements[EARLIER], measurements[CONTROL], strict=True)]
            ratio = median(a / b for a, b in zip(measurements[NOW], then, strict=True))
            control = median(a / b for a, b in zip(measurements[CONTROL], measurements[EARLIER], strict=True))
            worse += ratio > arguments.limit
            print(
                f"{name:<50} {median(measurements[NOW]):>6.2f} {median(then):>6.2f} {ratio:>7.3f} {control:>8.3f}",
                flush=True,
            )
    print(f"{worse} rows above {arguments.limit}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
