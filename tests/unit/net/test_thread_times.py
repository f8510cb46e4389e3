"""The times of the main thread, from the scheduler of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.net import thread_times
from brokerd.net.thread_times import ThreadTimesReader


def test_the_times_of_the_thread_grow_with_its_work() -> None:
    reader = ThreadTimesReader()
    first = reader.read()
    assert first is not None
    sum(range(1_000_000))
    second = reader.read()
    assert second is not None
    assert second.clock > first.clock and second.running > first.running and second.waiting >= first.waiting


def test_a_kernel_without_scheduler_statistics_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_times, "SCHEDSTAT", tmp_path / "schedstat")
    assert ThreadTimesReader().read() is None
    (tmp_path / "schedstat").write_text("\n")
    assert ThreadTimesReader().read() is None
