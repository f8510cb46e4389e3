"""Values of the kernel (/proc): CPU seconds, memory, cores of threads."""

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


def congestion_control() -> str:
    """The congestion control of new TCP connections. BBR sets a timer for nearly each segment that a broker sends to one of several readers."""
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def cpu_seconds(pids: Iterable[int]) -> tuple[float, float]:
    """(user, system) CPU seconds of all these processes so far."""
    user = system = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user / TICKS, system / TICKS


def cpu_clock(pids: Iterable[int]) -> float:
    """CPU seconds of all threads of these processes so far, with nanosecond resolution. Clock ticks are too coarse for work of a tenth of a second.

    The clock id of another process is derived from its pid as clock_getcpuclockid(3) does.
    """
    return sum(time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED) for pid in pids)


def process_tree(pid: int) -> list[int]:
    """The process and its descendants."""
    out = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        for child in children:
            out += process_tree(int(child))
    return out


def rss_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident MiB now, or the peak with "VmHWM"; 0 if the process has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def busy_seconds(core: int) -> float:
    """Busy seconds of this core so far, for any process. Time taken by a hypervisor counts as busy."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = (int(f) for f in fields)
            return (user + nice + system + irq + softirq + steal) / TICKS
    raise ValueError(f"no core {core} in /proc/stat")


def pin(pids: Iterable[int], cores: set[int]) -> None:
    """Pin all threads of these processes to `cores`. Later threads inherit it."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                os.sched_setaffinity(int(thread.name), cores)
            except ProcessLookupError:
                continue  # it has ended


def thread_demand(pid: int) -> dict[int, float]:
    """{thread id: seconds}: the time so far in which the thread has run or has waited for a core. The waiting time counts as demand too."""
    out = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            ran, waited, _ = (thread / "schedstat").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        out[int(thread.name)] = (int(ran) + int(waited)) / 1e9
    return out


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Pin this thread, and the processes that it starts meanwhile, to `cores`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def take_memory(folder: Path, megabytes: int) -> None:
    """Make sure that the kernel owns free pages of `megabytes` MB. The host of a virtual machine reclaims free memory after some seconds. Then the first
    write to a page costs several times as much as the copy, and the next measured program would get this cost by chance."""
    block = bytes(1_000_000)
    with tempfile.TemporaryFile(dir=folder) as file:
        for i in range(megabytes):
            os.pwrite(file.fileno(), block, i * len(block))
