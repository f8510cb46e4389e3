"""A backup is verified before it is restored: an incomplete one is rejected. A row that is newer than the metadata log is applied again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicState
from controlplane.disaster import backups, rows
from controlplane.models import AccessEntry, Cluster, HandledRequest, Topic
from controlplane.services import access
from tests.cluster.local import ROOT

pytestmark = pytest.mark.django_db
T = UUID(int=3)


def image() -> Image:
    out = Image(seq=12, chain_hash="abc", controller_epoch=4, cluster_id="c", metadata_version=2)
    state = PartitionState(
        (1, 2), (ReplicaIncarnation(1, 5), ReplicaIncarnation(2, 6)), leader=1, leader_broker_epoch=5, leader_epoch=7
    )
    out.topics[T] = TopicState(T, "t", 2, {"retention.ms": "9"}, 1, True, {0: state})
    out.topic_ids["t"] = T
    return out


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup of a database in a file: the tests' own database is in memory."""
    source = tmp_path / "live.sqlite3"
    with sqlite3.connect(source) as live:
        live.execute("CREATE TABLE anything (n)")
    monkeypatch.setattr(backups, "newest_migrations", lambda: {"controlplane": "0002"})
    file = SimpleNamespace(vendor="sqlite", settings_dict={"NAME": str(source)}, close=lambda: None)
    monkeypatch.setattr(backups, "connection", file)
    folder = tmp_path / "backup"
    with backups.new_backup_folder(folder) as partial:
        assert not folder.exists()
        backups.write_metadata(partial, image())
        backups.write_database(partial)
        backups.write_manifest(partial, image())
    return folder


def test_a_written_backup_is_read_back(backup: Path) -> None:
    manifest, found = backups.read_backup(backup)
    assert found == image()
    assert (manifest.cluster_id, manifest.metadata["seq"], manifest.database) == ("c", 12, "sqlite")
    assert manifest.migrations == {"controlplane": "0002"}
    assert backup.stat().st_mode & 0o077 == 0, "it holds password hashes"


def test_the_manifest_names_the_newest_migration_of_each_app() -> None:
    files = sorted(p.stem for p in (ROOT / "controlplane" / "migrations").glob("0*.py"))
    assert backups.newest_migrations()["controlplane"] == files[-1]


@pytest.mark.parametrize("name", [backups.METADATA, "db.sqlite3"])
def test_a_flipped_bit_or_a_missing_file_is_detected(backup: Path, name: str) -> None:
    data = bytearray((backup / name).read_bytes())
    data[len(data) // 2] ^= 1
    (backup / name).write_bytes(data)
    with pytest.raises(backups.BadBackup, match="checksum"):
        backups.read_backup(backup)
    (backup / name).unlink()
    with pytest.raises(backups.BadBackup, match="missing"):
        backups.read_backup(backup)


def test_a_directory_without_a_manifest_or_of_another_format_is_rejected(backup: Path) -> None:
    body = json.loads((backup / backups.MANIFEST).read_text())
    (backup / backups.MANIFEST).write_text(json.dumps({**body, "format": 2}))
    with pytest.raises(backups.BadBackup, match="format 2"):
        backups.read_backup(backup)
    (backup / backups.MANIFEST).unlink()
    with pytest.raises(backups.BadBackup, match="incomplete"):
        backups.read_backup(backup)


def test_a_backup_into_a_non_empty_directory_is_rejected(backup: Path) -> None:
    with pytest.raises(backups.BadBackup, match="not empty"), backups.new_backup_folder(backup):
        pass


def test_a_restore_keeps_the_previous_database_file(backup: Path) -> None:
    path = Path(str(backups.connection.settings_dict["NAME"]))
    with sqlite3.connect(path) as live:
        live.execute("INSERT INTO anything VALUES (1)")
    aside = backups.restore_database(backup, backups.read_backup(backup)[0])
    assert aside is not None
    with sqlite3.connect(path) as now, sqlite3.connect(aside) as before:
        assert now.execute("SELECT count(*) FROM anything").fetchone() == (0,)
        assert before.execute("SELECT count(*) FROM anything").fetchone() == (1,)


# -- rows ----------------------------------------------------------------------------------------------------------------
def row(topic_id: UUID = T, name: str = "t", generation: int = 2, **more: object) -> Topic:
    values = {
        "partitions": 1,
        "replication_factor": 2,
        "generation": generation,
        "applied_generation": generation,
        **more,
    }
    return Topic.objects.create(id=topic_id, name=name, **values)


def test_rows_missing_in_the_log_are_pending_again_and_old_requests_are_deleted() -> None:
    row(generation=5)
    row(uuid4(), "kept", generation=1, applied_generation=0)
    HandledRequest.objects.create(request_id="57-3", kind="create_topics")
    notes = rows.reset_rows(image())
    assert Topic.objects.get(id=T).applied_generation == 2 and len(notes) == 1
    assert not HandledRequest.objects.exists()


def test_an_applied_row_missing_in_the_backups_log_is_added_with_its_configs() -> None:
    later = row(uuid4(), "later", generation=3, partitions=2, configs={"cleanup.policy": "compact"})
    known = image()
    rows.add_applied_rows(known, [1, 2, 3])
    topic = known.topics[later.id]
    assert (topic.configs, topic.generation, topic.partition_count) == ({"cleanup.policy": "compact"}, 3, 2)
    assert {len(s.replicas) for s in topic.partitions.values()} == {2}
    assert known.topic_named("later") is topic


def test_a_deleted_row_is_a_tombstone_and_an_unapplied_row_is_ignored() -> None:
    row(generation=4, deleted_at="2026-01-01T00:00:00Z")
    never = row(uuid4(), "never", generation=1, applied_generation=0)
    known = image()
    rows.add_applied_rows(known, [1])
    assert known.deleted == {T: 4} and not known.topics and known.topic_named("t") is None
    assert never.id not in known.topics


def test_an_unapplied_change_keeps_the_configs_of_the_log() -> None:
    row(generation=3, applied_generation=2, configs={"retention.ms": "1"})
    known = image()
    rows.add_applied_rows(known, [1, 2])
    assert known.topics[T].configs == {"retention.ms": "9"} and known.topics[T].generation == 2


def test_observed_rows_of_another_cluster_are_ignored() -> None:
    Cluster.objects.create(pk=1, cluster_id="begun-by-mistake", metadata_seq=9)
    assert rows.known_image("c", [1]).seq == 0
    assert rows.known_image("", [1]).cluster_id == "begun-by-mistake"


def test_a_log_rebuilt_from_rows_has_the_highest_level() -> None:
    """At a lower level the controller could not write the ACLs of the rows."""
    assert rows.known_image("c", [1]).metadata_version == LEVEL_MAX


def test_import_creates_rows_once_and_changes_no_existing_row() -> None:
    assert rows.import_topics(image(), actor="import") == (["t"], [])
    made = Topic.objects.get(id=T)
    assert (made.configs, made.generation, made.applied_generation, made.replication_factor) == (
        {"retention.ms": "9"},
        2,
        2,
        2,
    )
    assert rows.import_topics(image(), actor="import") == ([], [])
    made.delete()
    row(uuid4(), "t")
    imported, notes = rows.import_topics(image(), actor="import")
    assert imported == [] and "another topic of this name" in notes[0]


def test_throttles_of_lost_moves_are_not_imported() -> None:
    lost = image()
    lost.topics[T].configs |= {"leader.replication.throttled.replicas": "0:1"}
    lost.broker_configs |= {1: (3, {"leader.replication.throttled.rate": "5"}), 2: (4, {})}
    rows.import_topics(lost, actor="import")
    made = Topic.objects.get()
    assert (made.configs, made.generation, made.applied_generation) == ({"retention.ms": "9"}, 3, 2)
    assert access.import_access(lost, actor="import") == 2
    settings = {r.key: (r.value, r.generation, r.applied_generation, r.waiting) for r in AccessEntry.objects.all()}
    assert settings == {"1": ({}, 4, 3, True), "2": ({}, 4, 4, False)}
