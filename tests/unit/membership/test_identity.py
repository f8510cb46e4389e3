"""The owner of a data directory, and whether its content is complete: with one directory and with several."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.environment import Environment
from brokerd.membership.identity import BrokerIdentity, IdentityError
from brokerd.storage import checkpoints
from brokerd.storage.log_dirs import LogDirs
from brokerd.storage.meta_properties import META, read_meta
from tests.simulation.disk import SimDisk

A, B, C = Path("/a"), Path("/b"), Path("/c")


class Harness:
    """The parts of Environment that identity uses."""

    numbers = count()

    def __init__(self) -> None:
        self.disk, self.jobs = SimDisk(), ManualJobs()
        self.boot_id = "boot-1"
        self.locked: set[Path] = set()
        self.intact = False
        """The finding of the last start, before the metadata log recorded it."""

    def lock(self, folder: Path) -> bool:
        return folder not in self.locked

    def draw_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def draw_life(self) -> str:
        return self.draw_id()

    def found_intact(self, *paths: Path, **how: bool) -> bool:
        self.start(*paths, **how)  # type: ignore[arg-type]
        return self.intact

    def start(self, *paths: Path, broker_id: int = 1, clean: bool = True, received: bool = True) -> BrokerIdentity:
        outside: Any = self
        identity = BrokerIdentity(LogDirs(paths, self.disk), broker_id, outside)
        self.intact = identity.tail_intact
        if received:
            identity.store_last_entry("cluster", 1, "hash")
            identity.loss_is_known()
        if clean:
            identity.stopped_cleanly(7)
        return identity


def test_every_directory_has_the_broker_id_and_the_ids_of_the_others() -> None:
    harness = Harness()
    identity = harness.start(A, B)
    metas = [read_meta(harness.disk, d) for d in (A, B)]
    assert {m["broker.uuid"] for m in metas} == {identity.broker_uuid}
    assert {m["cluster.id"] for m in metas} == {"cluster"}
    ids = {m["directory.id"] for m in metas}
    assert len(ids) == 2 and all(set(m["directory.ids"].split(",")) == ids for m in metas)
    again = harness.start(A, B)
    assert harness.intact and again.broker_uuid == identity.broker_uuid
    assert not any(d.deep for d in again.dirs.all)


def test_a_start_after_a_run_without_clean_shutdown_is_unclean() -> None:
    harness = Harness()
    assert not harness.start(A, B, clean=False).unclean_start, "a new broker has no earlier run"
    killed = harness.start(A, B)
    assert killed.unclean_start and killed.tail_intact, "the page cache has all records"
    assert not harness.start(A, B).unclean_start


def test_directories_of_different_brokers_are_rejected() -> None:
    harness = Harness()
    harness.start(A)
    harness.start(B)
    with pytest.raises(IdentityError, match=r"belong to different brokers or clusters: broker\.uuid"):
        harness.start(A, B)
    with pytest.raises(IdentityError, match="/a belongs to broker 1, not 2"):
        harness.start(A, C, broker_id=2)
    harness.locked.add(B)
    with pytest.raises(IdentityError, match="/b is locked by another broker process"):
        harness.start(C, B)


def test_an_added_directory_is_no_loss_and_a_removed_one_is_a_loss_once() -> None:
    harness = Harness()
    harness.start(A)
    assert harness.found_intact(A, B)
    assert not harness.found_intact(A)
    assert harness.found_intact(A), "since the metadata log knows of it"


def test_an_emptied_directory_is_a_loss_until_the_metadata_log_knows() -> None:
    harness = Harness()
    harness.start(A, B)
    harness.disk.rmtree(B)
    assert not harness.found_intact(A, B, clean=False, received=False)
    assert not harness.found_intact(A, B, clean=False), "the first start was not heard of"
    assert harness.found_intact(A, B)


def test_an_unavailable_directory_is_a_loss_until_it_returns() -> None:
    harness = Harness()
    harness.start(A, B)
    harness.disk.broken.add(B)
    for _ in range(2):
        identity = harness.start(A, B)
        assert not identity.fresh and [d.failed is None for d in identity.dirs.all] == [True, False]
    harness.disk.broken.clear()
    assert harness.found_intact(A, B), "it came back as it was left, and nobody counted on it meanwhile"
    harness.disk.broken.update((A, B))
    with pytest.raises(IdentityError, match=r"/a: cannot be opened.*; /b: "):
        harness.start(A, B)


def test_a_directory_that_failed_is_not_trusted_after_a_restart() -> None:
    harness = Harness()
    identity = harness.start(A, B, clean=False)
    harness.disk.broken.add(B)
    reported = SimpleNamespace(io_error=lambda: None, directory_failed=lambda failed: identity.tail_in_doubt())
    identity.dirs.add_listener(reported)  # type: ignore[arg-type]
    identity.store_last_entry("cluster", 2, "hash-2")
    assert identity.dirs.all[1].failed
    identity.loss_is_known()  # the next start knows which records may be lost
    identity.stopped_cleanly(7)
    harness.disk.broken.clear()
    assert not harness.found_intact(A, B)
    assert harness.found_intact(A, B)


def test_after_a_power_cut_only_flushed_records_are_trusted() -> None:
    harness = Harness()
    harness.start(A, B, clean=False)
    harness.boot_id = "boot-2"
    identity = harness.start(A, B, clean=False)
    assert not identity.fresh and all(d.deep for d in identity.dirs.all)


def test_a_replica_that_moved_to_another_directory_is_not_missing() -> None:
    disk = SimDisk()
    for d in (A, B):
        disk.mkdir(d)
    checkpoints.write_offsets(disk, A / checkpoints.HIGH_WATERMARKS, {("t", 0): 5, ("t", 1): 5, ("t", 2): 0})
    disk.mkdir(B / "t-0")
    assert checkpoints.lost_copies(disk, [A, B]) == ["t-1"]


def test_each_directory_has_its_own_lock(tmp_path: Path) -> None:
    one, other = Environment(), Environment()
    for name in "ab":
        (tmp_path / name).mkdir()
        assert one.lock(tmp_path / name)
    assert not other.lock(tmp_path / "a") and not other.lock(tmp_path / "b")


def test_an_unreadable_properties_file_is_ignored() -> None:
    disk = SimDisk()
    disk.mkdir(A)
    disk.replace(A / META, b"#x=1\nno equals\nbroker.id = 3\n\xff=\xfe\n")
    assert read_meta(disk, A)["broker.id"] == "3"


def test_a_directory_of_a_newer_version_is_rejected() -> None:
    harness = Harness()
    harness.start(A)
    meta = harness.disk.read(A / META) or b""
    assert b"version=1\n" in meta
    harness.disk.replace(A / META, meta.replace(b"version=1\n", b"version=2\n"))
    with pytest.raises(IdentityError, match="newer program"):
        harness.start(A)


class ManualJobs:
    """A job runner whose jobs run when the test calls it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Any, Any]] = []

    def submit(self, run: Any, done: Any, *, urgent: bool = False) -> None:
        self.jobs.append((run, done))

    def run_jobs(self) -> None:
        while self.jobs:
            run, done = self.jobs.pop(0)
            run()
            done(None)


def serving_broker() -> tuple[Harness, BrokerIdentity, ManualJobs, list[str]]:
    """A broker that serves requests, and the logs that it has flushed since then."""
    harness, flushed = Harness(), list[str]()
    later = harness.jobs
    identity = harness.start(A, clean=False)
    identity.write_in_background()
    harness.disk.flushes = flushed.append
    return harness, identity, later, flushed


def test_the_properties_of_a_running_broker_are_flushed_in_the_background() -> None:
    harness, identity, later, flushed = serving_broker()
    identity.store_last_entry("cluster", 2, "hash-2")
    identity.store_last_entry("cluster", 3, "hash-3")
    assert not flushed and read_meta(harness.disk, A)["metadata.seq"] == "1" and len(later.jobs) == 1
    later.run_jobs()
    assert flushed and read_meta(harness.disk, A)["metadata.seq"] == "3"


def test_an_io_error_survives_a_kill_before_its_flush() -> None:
    harness, identity, later, flushed = serving_broker()
    identity.tail_in_doubt()
    assert not flushed and later.jobs
    harness.disk = harness.disk.killed()
    assert not harness.found_intact(A)


def test_a_late_job_does_not_overwrite_the_shutdown_marker() -> None:
    harness, identity, later, _ = serving_broker()
    identity.store_last_entry("cluster", 2, "hash-2")
    (late, _) = later.jobs.pop()
    identity.store_last_entry("cluster", 3, "hash-3")
    identity.write_here()
    late()
    assert read_meta(harness.disk, A)["metadata.seq"] == "3"
