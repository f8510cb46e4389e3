"""What the kernel counted: CPU seconds, memory, which core did whose work. Law: figures of /proc only. Called by `bench` and `bench.peer`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
CPUCLOCK_SCHED = 2
"""include/linux/posix-timers.h"""


def cpu_seconds(pids: Iterable[int]) -> tuple[float, float]:
    """(user, system) seconds of all of them so far."""
    user = system = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user / TICKS, system / TICKS


def cpu_clock(pids: Iterable[int]) -> float:
    """Seconds that all threads of theirs have run so far, to the nanosecond: what an act of a tenth of a second cost does not show in ticks.

    The id of another process's clock is what clock_getcpuclockid(3) makes of its pid.
    """
    return sum(time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED) for pid in pids)


def rss_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident MiB now, or its peak with "VmHWM"; 0 when the process is gone."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def busy_seconds(core: int) -> float:
    """Seconds that this core has worked so far, for whomever. What a hypervisor took away counts as work."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = (int(f) for f in fields)
            return (user + nice + system + irq + softirq + steal) / TICKS
    raise ValueError(f"no core {core} in /proc/stat")


def pin(pids: Iterable[int], cores: set[int]) -> None:
    """All threads of these processes onto `cores`; threads made later inherit it."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                os.sched_setaffinity(int(thread.name), cores)
            except ProcessLookupError:
                continue  # it ended meanwhile


def thread_demand(pid: int) -> dict[int, float]:
    """Seconds that each thread of a process has run or waited for a core so far: a thread held up by neighbours wanted to run all the same."""
    out = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            ran, waited, _ = (thread / "schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        out[int(thread.name)] = (int(ran) + int(waited)) / 1e9
    return out


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """This thread, and what it starts meanwhile, on `cores`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def take_memory(folder: Path, megabytes: int) -> None:
    """Make the kernel own that many free pages. A virtual machine's host takes free memory back after some seconds, and the first write to a page
    then costs several times the copy: it would fall on whoever writes next, which is chance."""
    block = bytes(1_000_000)
    with tempfile.TemporaryFile(dir=folder) as file:
        for i in range(megabytes):
            os.pwrite(file.fileno(), block, i * len(block))
