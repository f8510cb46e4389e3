"""Index files of closed segments, whatever their kind: errors, and changes during a build. More is in `test_key_indexing`."""

from __future__ import annotations

from brokerd.maintenance.segment_indexing import RETRY_MS, ROUND_MS_MIN
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log_dirs import LogDirListener
from tests.unit.maintenance.test_delay_indexing import FrontWorld, front_world
from tests.unit.storage.test_log import append


def test_a_segment_that_cannot_have_an_index_is_tried_again_later() -> None:
    w = front_world()
    file = w.log.segments[0].file
    byte = file.pread(1, 100)
    file.pwrite(bytes([byte[0] ^ 1]), 100)
    found = w.run_jobs()
    assert not found[0] and all(found[1:]), "the other segments have one"
    tries = w.indexing.bytes_read
    w.run_jobs()
    assert w.indexing.bytes_read == tries
    file.pwrite(byte, 100)
    w.mono_ms += RETRY_MS
    assert all(w.run_jobs())


def test_a_truncation_during_the_build_discards_it() -> None:
    w = front_world()
    w.mono_ms += ROUND_MS_MIN
    w.indexing.tick(w.now())
    w.log.truncate_to(w.log.segments[1].base_offset + 1)
    for _ in range(40):
        append(w.log)
    w.stable = 0
    assert not any(w.run_jobs())


class Listener(LogDirListener):
    def __init__(self, errors: list[None]) -> None:
        self.errors = errors

    def io_error(self) -> None:
        self.errors.append(None)


IO_ERROR = DiskFailed("writing: Input/output error", of_device=True)


def fail_next_step(w: FrontWorld) -> None:
    w.log.disk.fail_at = {w.log.disk.steps + 1: IO_ERROR}  # type: ignore[attr-defined]


def test_an_io_error_of_a_write_takes_the_log_directory_offline() -> None:
    w = front_world()
    fail_next_step(w)
    w.run_jobs()
    assert w.harness.log_dirs.online == []
    assert w.harness.log_dirs.all[0].failed == str(IO_ERROR)


def test_an_io_error_takes_the_directory_offline_although_a_move_has_ended_the_build() -> None:
    w = front_world()
    w.mono_ms += ROUND_MS_MIN
    w.indexing.tick(w.now())
    w.harness.replica.moving = True
    fail_next_step(w)
    w.harness.run_jobs()
    assert w.harness.log_dirs.online == []


def test_after_another_io_error_the_next_start_does_not_trust_the_tails() -> None:
    w = front_world()
    errors: list[None] = []
    w.harness.log_dirs.add_listener(Listener(errors))
    w.log.disk.fail_at = {w.log.disk.steps + 1: DiskFailed("writing: Operation not permitted")}  # type: ignore[attr-defined]
    w.run_jobs()
    assert len(errors) == 1 and w.harness.log_dirs.online


def test_a_missing_or_damaged_file_is_no_io_error() -> None:
    w = front_world()
    errors: list[None] = []
    w.harness.log_dirs.add_listener(Listener(errors))
    w.log.disk.unlink(w.log.segments[0].path)
    file = w.log.segments[1].file
    file.pwrite(bytes([file.pread(1, 100)[0] ^ 1]), 100)
    assert w.run_jobs()[:2] == [False, False]
    assert errors == []


def test_a_full_disk_leaves_the_log_directory_online() -> None:
    w = front_world()
    w.log.disk.fail_at = {w.log.disk.steps + 1: DiskFull("no space left")}  # type: ignore[attr-defined]
    assert not all(w.run_jobs())
    assert w.harness.log_dirs.online and w.harness.replica.offline_reason is None
