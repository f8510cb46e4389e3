"""The stored log start offset: what is reported and flushed while a flush is pending, overtaken, or impossible."""

from __future__ import annotations

from pathlib import Path
from random import Random

from brokerd.storage.disk import DiskFull
from brokerd.storage.log_start import LOG_START, StoredLogStart
from tests.simulation.disk import SimDisk


class Log:
    folder = Path("/data/t-0")

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.disk.mkdir(self.folder)
        self.start_offset = 0


def log_with_raised_start(to: int) -> tuple[Log, StoredLogStart]:
    log = Log()
    stored = StoredLogStart(log)
    log.start_offset = to
    assert stored.request(0)
    return log, stored


def test_a_follower_reports_the_old_log_start_offset_until_the_new_one_is_flushed() -> None:
    log, stored = log_with_raised_start(10)
    assert (stored.reported, stored.pending, stored.flushed) == (0, True, 0)
    flush = stored.plan()
    assert flush is not None
    flush.run()
    stored.on_finished(flush)
    assert (stored.reported, stored.pending, stored.flushed) == (10, False, 10)
    assert b"10" in (log.disk.read(log.folder / LOG_START) or b"")


def test_a_flush_that_another_raise_overtook_leaves_the_rest_pending() -> None:
    log, stored = log_with_raised_start(10)
    flush = stored.plan()
    assert flush is not None
    log.start_offset = 20
    assert stored.request(10)
    flush.run()
    stored.on_finished(flush)
    assert (stored.flushed, stored.pending, stored.reported) == (10, True, 0)


def test_a_log_start_offset_that_is_already_flushed_needs_no_flush() -> None:
    _log, stored = log_with_raised_start(10)
    flush = stored.plan()
    assert flush is not None
    stored.on_finished(flush)
    assert not stored.request(10) and not stored.pending


def test_nothing_is_flushed_while_the_disk_is_full() -> None:
    log, stored = log_with_raised_start(10)
    log.disk.fail_at[log.disk.steps + 1] = DiskFull("no space left on the device")
    assert stored.plan() is None and stored.pending


def test_a_lowered_start_is_pending_until_a_flush_and_hides_nothing_meanwhile() -> None:
    log, stored = log_with_raised_start(10)
    flush = stored.plan()
    assert flush is not None
    flush.run()
    log.start_offset = 4
    opened = StoredLogStart(log)
    steps = log.disk.steps
    opened.lower()
    assert log.disk.steps == steps + 1, "only the write into the page cache"
    assert (opened.pending, opened.reported) == (True, 4), "a follower reports the lowered offset at once"
    again = opened.plan()
    assert again is not None
    again.run()
    opened.on_finished(again)
    assert not opened.pending and log.disk.power_cut(Random(1)).read(log.folder / LOG_START) == b"%020d" % 4
