"""The command `restore`: what it checks before it writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore
from controlplane.disaster import backups, metalog, reach, rows
from tests.unit.cluster.memory_store import MemoryStore
from tests.unit.controlplane.disaster.test_backups import image
from tests.unit.controlplane.management.commands.local_cluster import run

MANIFEST = SimpleNamespace(cluster_id="c1", created_at="2026-11-01")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A ZooKeeper without a log, and a backup that is correct."""
    store = MemoryStore()

    @contextmanager
    def connection(folder: Path, address: str | None) -> Iterator[BlockingStore]:
        yield BlockingStore(store)

    monkeypatch.setattr(reach, "zookeeper_connection", connection)
    monkeypatch.setattr(backups, "read_backup", lambda source: (MANIFEST, image()))
    return store


def test_verify_checks_the_backup_and_connects_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "read_backup", lambda source: (MANIFEST, image()))
    monkeypatch.setattr(reach, "zookeeper_connection", None)
    assert "checksums are correct" in run("restore", f"--from={tmp_path}", "--verify")


def test_a_damaged_backup_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_bad_backup(source: Path) -> None:
        raise backups.BadBackup("the checksum of metadata differs")

    monkeypatch.setattr(backups, "read_backup", raise_bad_backup)
    with pytest.raises(CommandError, match="checksum of metadata differs"):
        run("restore", f"--from={tmp_path}", "--verify")


def test_nothing_is_restored_while_a_broker_runs(store: MemoryStore, tmp_path: Path) -> None:
    store.nodes[znodes.broker(1)] = b""
    with pytest.raises(CommandError, match="still running: broker 1"):
        run("restore", f"--from={tmp_path}", f"--data-dir={tmp_path}", "--force")


def test_another_log_is_replaced_only_with_force(store: MemoryStore, tmp_path: Path) -> None:
    metalog.write_log(BlockingStore(store), image())
    before = dict(store.nodes)
    with pytest.raises(CommandError, match="use --force to replace it"):
        run("restore", f"--from={tmp_path}", f"--data-dir={tmp_path}")
    with pytest.raises(CommandError, match="there is no inspection"):
        run("restore", f"--from={tmp_path}", f"--data-dir={tmp_path}", "--force")
    assert store.nodes == before


def test_a_database_with_topics_is_replaced_only_with_force(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Path] = []
    monkeypatch.setattr(rows, "holds_topics", lambda: True)
    monkeypatch.setattr(backups, "restore_database", lambda source, manifest: restored.append(source))
    monkeypatch.setattr("controlplane.management.commands.restore.call_command", lambda *_, **__: None)
    arguments = ("restore", f"--from={tmp_path}", f"--data-dir={tmp_path}", "--database-only")
    with pytest.raises(CommandError, match="the database contains topics; use --force"):
        run(*arguments)
    assert restored == []
    assert "The database is restored." in run(*arguments, "--force")
    assert restored == [tmp_path]
