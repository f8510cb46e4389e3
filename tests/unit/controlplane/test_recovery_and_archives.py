from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import spark
from controlplane.models import ArchiveBatch, ArchiveJob, Change, ReplicaRecovery
from controlplane.selectors import archives as selectors
from controlplane.services import Refused, acls, archives, recovery
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


# -- replica recovery ------------------------------------------------------------------------------------------------------


def test_a_replica_is_recovered_when_it_is_back_in_sync_after_the_reset(world: World) -> None:
    world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, who="alice", why="bad disk")
    assert recovery.advance_recovery(row.pk) == "asked"
    recovery.mark_reset(row.reset_id, world.image.seq + 1, controller_epoch=3)
    assert recovery.advance_recovery(row.pk) == "reset"  # the mirror has not seen the reset yet
    world.put("flights", 0, isr=(1,))
    assert recovery.advance_recovery(row.pk) == "copying"
    world.put("flights", 0, isr=(1, 2))
    assert recovery.advance_recovery(row.pk) == "done"
    assert recovery.working_recoveries() == []
    assert Change.objects.get(verb="replica.recover").outcome == "confirmed"


def test_the_last_copy_in_sync_is_never_thrown_away(world: World) -> None:
    world.topic("flights", (1, 2))
    world.put("flights", 0, isr=(2,), leader=2, leader_incarnation=102)
    with pytest.raises(Refused, match="would lose records"):
        recovery.recover_replica("flights", 0, 2, who="alice")


@pytest.mark.parametrize(
    ("topic", "partition", "broker", "text"),
    [("nope", 0, 1, "no partition"), ("flights", 0, 3, "no replica"), ("flights", 9, 1, "no partition")],
)
def test_what_is_not_there_cannot_be_recovered(
    world: World, topic: str, partition: int, broker: int, text: str
) -> None:
    world.topic("flights", (1, 2))
    with pytest.raises(Refused, match=text):
        recovery.recover_replica(topic, partition, broker, who="alice")


def test_a_replica_is_recovered_once_at_a_time(world: World) -> None:
    world.topic("flights", (1, 2))
    recovery.recover_replica("flights", 0, 2, who="alice")
    with pytest.raises(Refused, match="already"):
        recovery.recover_replica("flights", 0, 2, who="bob")


def test_a_replica_that_was_moved_away_fails_its_recovery(world: World) -> None:
    world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, who="alice")
    recovery.mark_reset(row.reset_id, 1, controller_epoch=3)
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    assert recovery.advance_recovery(row.pk) == "failed"
    assert ReplicaRecovery.objects.get().finished_at is not None


# -- archive jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, settings: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.LAKE_DIR = tmp_path / "lake"  # type: ignore[attr-defined]
    settings.DATA_DIR = tmp_path  # type: ignore[attr-defined]
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    return tmp_path / "lake"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def runs(code: str) -> None:
        monkeypatch.setattr(spark, "command", lambda job_id, topics, bootstrap: [sys.executable, "-c", code])

    return runs


def settled(job: ArchiveJob, state: str) -> ArchiveJob:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        archives.advance_archive(job.pk)
        job.refresh_from_db()
        if job.state == state:
            return job
        time.sleep(0.05)
    raise AssertionError(f"job is {job.state}: {job.note}")


def publish(lake: Path, job: ArchiveJob, batch: int, first: int, upto: int, torn: bool = False) -> None:
    folder = lake / f"job-{job.pk}"
    folder.mkdir(parents=True, exist_ok=True)
    line = {
        "batch": batch,
        "topic": "flights",
        "partition": 0,
        "first_offset": first,
        "next_offset": upto,
        "rows": upto - first,
    }
    with (folder / "manifest.jsonl").open("a") as file:
        file.write(json.dumps(line)[: -5 if torn else None] + ("" if torn else "\n"))


def test_a_job_starts_runs_and_stops_by_its_row(world: World, lake: Path, driver: Callable[[str], None]) -> None:
    world.topic("flights", (1, 2))
    driver("import time; time.sleep(60)")
    job = archives.start_archive(["flights"], who="alice")
    job = settled(job, "running")
    job.refresh_from_db()
    assert spark.alive(job.pid, job.pid_started_at)
    assert archives.advance_archive(job.pk) == "running"
    archives.stop_archive(job.pk, who="alice")
    job = settled(job, "stopped")
    assert job.pid is None
    assert archives.resume_archive(job.pk, who="alice").state == "asked"


def test_what_was_written_is_read_back_line_by_line_and_once(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    job = archives.start_archive(["flights"], who="alice")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 100, 150, torn=True)
    assert archives.read_manifest(job) == 1
    job.refresh_from_db()
    assert (job.rows, job.batches) == (100, 1)
    assert archives.read_manifest(job) == 0
    (lake / f"job-{job.pk}" / "manifest.jsonl").write_text("")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 100, 150)
    assert archives.read_manifest(job) == 1
    (written,) = selectors.archive_written(job.pk)
    assert (written.first_offset, written.next_offset, written.rows, written.gap) == (0, 150, 150, False)
    assert ArchiveBatch.objects.count() == 2


def test_a_gap_between_batches_is_shown(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    job = archives.start_archive(["flights"], who="alice")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 120, 150)
    archives.read_manifest(job)
    assert selectors.archive_written(job.pk)[0].gap


def test_a_driver_that_keeps_dying_fails_the_job_with_its_last_words(
    world: World, lake: Path, driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("flights", (1, 2))
    monkeypatch.setattr(archives, "RESTART_SECONDS", 0)
    monkeypatch.setattr(archives, "RESTARTS_MAX", 2)
    driver("raise SystemExit('no room in the lake')")
    job = settled(archives.start_archive(["flights"], who="alice"), "failed")
    assert (job.restarts, "no room in the lake" in job.note) == (2, True)


def test_two_jobs_never_archive_the_same_topic(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    archives.start_archive(["flights"], who="alice")
    with pytest.raises(Refused, match="archived by job"):
        archives.start_archive(["flights"], who="alice")


def test_a_process_of_the_same_number_is_not_the_same_process() -> None:
    import os

    assert not spark.alive(os.getpid(), 12345.0)
    assert not spark.alive(None, None)


# -- ACLs ------------------------------------------------------------------------------------------------------------------


def test_a_binding_is_stored_once_and_removed_with_its_record(db: None) -> None:
    values = {
        "resource_type": "topic",
        "resource_name": "flights",
        "principal": "User:alice",
        "operation": "read",
        "permission": "allow",
    }
    row = acls.create_acl(**values, who="bob")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="already"):
        acls.create_acl(**values, who="bob")  # type: ignore[arg-type]
    acls.delete_acl(row.pk, who="bob")
    assert Change.objects.first().before["principal"] == "User:alice"  # type: ignore[union-attr]
    with pytest.raises(Refused, match="no binding"):
        acls.delete_acl(row.pk, who="bob")


@pytest.mark.parametrize(
    ("field", "value"),
    [("resource_type", "table"), ("operation", "sing"), ("permission", "maybe"), ("principal", "alice"), ("resource_name", ""),
     ("pattern_type", "regex")],
)  # fmt: skip
def test_words_that_kafka_does_not_know_are_refused_by_field(db: None, field: str, value: str) -> None:
    values = {
        "resource_type": "topic",
        "resource_name": "flights",
        "principal": "User:alice",
        "operation": "read",
        "permission": "allow",
    }
    with pytest.raises(Refused) as refused:
        acls.create_acl(**{**values, field: value}, who="bob")  # type: ignore[arg-type]
    assert refused.value.field == field
