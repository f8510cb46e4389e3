"""A process is killed above its limits of time and memory, and an error of it has its last line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from controlplane.clients.limited_process import NoOutput, NoOutputReason, output, resident_bytes

MIB = 1024 * 1024
WAITS = "import sys, time; text = sys.stdin.read(); print(text.upper(), flush=True); time.sleep(600)"
GROWS = "held = []\nwhile True: held.append(bytearray(8 << 20))"


def run(code: str, *, seconds: float = 60, memory_bytes: int = 256 * MIB) -> str:
    command = [sys.executable, "-c", code]
    return output(command, "request " * 20_000, seconds=seconds, memory_bytes=memory_bytes, folder=Path.cwd())


def overrun(code: str, *, seconds: float = 60) -> NoOutput:
    with pytest.raises(NoOutput) as found:
        run(code, seconds=seconds)
    return found.value


def test_the_output_of_a_process_within_its_limits() -> None:
    code = "import sys, time; text = sys.stdin.read(); time.sleep(0.2); print(len(text), end='')"
    assert run(code) == "160000", "the request is larger than a pipe, and the process outlasts a check"


def test_a_process_that_needs_more_memory_is_ended() -> None:
    begun = time.monotonic()
    found = overrun(GROWS)
    assert found.reason is NoOutputReason.MEMORY and "more than 256 MiB" in str(found)
    assert time.monotonic() - begun < 60


def test_reserved_address_space_is_not_memory() -> None:
    assert (
        run("import mmap; m = mmap.mmap(-1, 1 << 32, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); print(1, end='')")
        == "1"
    )


def test_a_process_that_takes_longer_is_ended() -> None:
    found = overrun(WAITS, seconds=0.2)
    assert found.reason is NoOutputReason.TIME and "longer than 0 s" in str(found)


def test_a_process_that_fails_is_named_with_its_last_line() -> None:
    found = overrun("import sys; sys.stdin.read(); sys.exit('the reason')")
    assert found.reason is NoOutputReason.CRASHED and "code 1: the reason" in str(found)


def test_the_memory_of_a_process_that_has_ended_is_zero() -> None:
    assert resident_bytes(os.getpid()) > MIB and resident_bytes(2**22 + 1) == 0
