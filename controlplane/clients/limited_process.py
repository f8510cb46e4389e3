"""A process that answers one request on its standard output, with limits of time and memory.

Invariant: the process is killed above its limits, for any library that uses the memory. The memory is looked at every POLL_SECONDS, so it may be exceeded by
what is allocated between two checks. Address space is no measure: allocators and threads reserve gigabytes that they do not use. Does not contain: what the process
does.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

POLL_SECONDS = 0.05
"""Interval of the checks of the memory. At 1 GB/s, which no query reached, 50 MB are allocated in it."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STDERR_LENGTH_MAX = 500
"""Maximum number of characters of the last line of the standard error in an error."""


class NoOutputReason(StrEnum):
    """The reason why a process has no output."""

    TIME = "time"
    MEMORY = "memory"
    CRASHED = "crashed"


class NoOutput(Exception):
    """The process was killed above a limit, or ended with an error. The text says which."""

    def __init__(self, reason: NoOutputReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def output(command: Sequence[str], request: str, *, seconds: float, memory_bytes: int, folder: Path) -> str:
    """The standard output of `command`, which gets `request` as its standard input and runs in `folder`. Raises NoOutput."""
    deadline = time.monotonic() + seconds
    # A file, because `communicate` does not continue to send its input after a time-out.
    with tempfile.TemporaryFile("w+") as source:
        source.write(request)
        source.seek(0)
        process = subprocess.Popen(
            command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )
    with process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if resident_bytes(process.pid) > memory_bytes:
                    text = f"needed more than {memory_bytes >> 20} MiB of memory and was ended."
                    raise NoOutput(NoOutputReason.MEMORY, text)
                if time.monotonic() > deadline:
                    raise NoOutput(NoOutputReason.TIME, f"took longer than {seconds:.0f} s and was ended.")
        finally:
            process.kill()
    if process.returncode:
        last = (err.strip().splitlines() or ["no output"])[-1][:STDERR_LENGTH_MAX]
        raise NoOutput(NoOutputReason.CRASHED, f"failed: its process ended with code {process.returncode}: {last}")
    return out


def resident_bytes(pid: int) -> int:
    """Memory of the process that is neither shared nor a part of a file. 0: it has ended."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE_BYTES
