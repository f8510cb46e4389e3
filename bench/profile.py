"""`python -m bench.profile ROW`: CPU of a row on Weir's brokers: kernel or Python, and which functions.

A row of `bench.peer` runs on Weir alone. py-spy (pip install py-spy) samples the leader of all partitions without stopping it, and the kernel
counts the user and system time of each broker. Costs are from the kernel's clocks. Percentages are of samples that owned the interpreter
lock: waiting threads and threads in the kernel are not included.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.client import consume, produce
from bench.kernel import cpu_seconds, on_cores, pin
from bench.peer.__main__ import CORES
from bench.peer.rows import LOADS, RATES, Load, Rate
from bench.peer.runs import make_topics, rate_pass
from bench.peer.systems import Weir

SAMPLES_PER_SECOND = 400
SHOWN = 40


@contextmanager
def sampled(pid: int, seconds: float, into: Path) -> Iterator[None]:
    """Run py-spy for that many seconds beside the body of the context."""
    spy = shutil.which("py-spy")
    if spy is None:
        raise SystemExit("py-spy was not found: pip install py-spy")
    command = [
        spy,
        "record",
        "--nonblocking",
        "--gil",
        "-p",
        str(pid),
        "-d",
        str(int(seconds)),
        "-r",
        str(SAMPLES_PER_SECOND),
        "-f",
        "raw",
        "-o",
        str(into),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        yield
        _, error = process.communicate(timeout=seconds + 60)
        if process.returncode:
            raise SystemExit(f"py-spy failed: {error[-500:]}")


def reported(stacks: Path) -> list[str]:
    """Functions by their samples: as the innermost frame (self) and in any frame (all), in % of all samples."""
    ends: Counter[str] = Counter()
    passes: Counter[str] = Counter()
    total = 0
    for line in stacks.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        # Without line numbers: the unit of optimisation is a function.
        frames = [frame.rpartition(":")[0] + ")" if ":" in frame else frame for frame in stack.split(";")]
        total += int(count)
        ends[frames[-1]] += int(count)
        for frame in set(frames):
            passes[frame] += int(count)
    out = [f"{total} samples of Python in the leader", f"{'self %':>7} {'all %':>7}"]
    out += [
        f"{100 * ends[frame] / total:7.1f} {100 * n / total:7.1f}  {frame}" for frame, n in passes.most_common(SHOWN)
    ]
    return out


def backlog(system: Weir, load: Load, seconds: float) -> Callable[[], str]:
    """Fill the topics; the returned function reads them from the beginning, repeatedly."""
    names = [f"profile-{i}" for i in range(load.topics)]
    make_topics(system, names, load.replicas)
    produce(system.bootstrap, names, os.urandom(load.record_bytes), load.count, load.batch_bytes, load.acks)

    def act() -> str:
        end, times, spent = time.monotonic() + seconds, 0, 0.0
        while time.monotonic() < end:
            spent += consume(system.bootstrap, names, load.count)
            times += 1
        megabytes = times * load.count * load.record_bytes / 1e6
        return f"{megabytes:.0f} MB read in {times} turns at {megabytes / spent:.0f} MB/s"

    return act


def rate(system: Weir, row: Rate) -> Callable[[], str]:
    def act() -> str:
        found, _ = rate_pass(system, row, "profile", CORES)
        return ", ".join(f"{name} {ms:.2f} ms" for name, ms in found.items())

    return act


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument(
        "row",
        help="part of the name and terms of a row, of which the first is taken: 'rate-10000-1-topic-1-partition-1kb RF 3', 'backlog-100-topics'",
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    named = [(f"{r.name} {r.terms}", r) for r in RATES] + [
        (f"{r.backlog_name} {r.terms}", r) for r in LOADS if r.backlog
    ]
    name, row = next(((n, r) for n, r in named if arguments.row in n), ("", None))
    if row is None:
        raise SystemExit(f"no row contains {arguments.row!r}; rows: {'; '.join(n for n, _ in named)}")
    with tempfile.TemporaryDirectory(prefix="weir-bench-profile-") as folder:
        system = Weir(Path(folder), 3)
        try:
            system.start()
            pin(system.pids().values(), {CORES.brokers})
            act = backlog(system, row, arguments.seconds) if isinstance(row, Load) else rate(system, row)
            pids = system.broker_pids()
            before = {n: cpu_seconds([p]) for n, p in pids.items()}
            began = time.monotonic()
            stacks = Path(folder) / "stacks.txt"
            with (
                on_cores({CORES.client}),
                sampled(pids[1], arguments.seconds if isinstance(row, Load) else row.seconds, stacks),
            ):
                what = act()
                spent, seconds = {n: cpu_seconds([p]) for n, p in pids.items()}, time.monotonic() - began
            print(f"{name}: {what}")
            for n in pids:
                user, kernel = (after - b for after, b in zip(spent[n], before[n], strict=True))
                print(
                    f"broker {n}{' (leads)' if n == 1 else ''}: {100 * user / seconds:.1f} % of a core in Python, {100 * kernel / seconds:.1f} % in the kernel"
                )
            print("\n".join(reported(stacks)))
        finally:
            system.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
