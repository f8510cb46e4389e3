"""A backup is verified before it is restored: an incomplete one is rejected. A row that is newer than the metadata log is applied again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicState
from controlplane.disaster import backups
from controlplane.models import Topic
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
