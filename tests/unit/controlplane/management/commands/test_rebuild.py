"""The command `rebuild`: what it checks before it writes, and the log that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore
from controlplane.disaster import metalog, reach
from controlplane.management.commands import rebuild
from tests.unit.cluster.memory_store import MemoryStore
from tests.unit.controlplane.disaster.test_backups import image
from tests.unit.controlplane.disaster.test_reach import inspection
from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A ZooKeeper without a log, and a database that is migrated."""
    store = MemoryStore()

    @contextmanager
    def connection(folder: Path, address: str | None) -> Iterator[BlockingStore]:
        yield BlockingStore(store)

    monkeypatch.setattr(reach, "zookeeper_connection", connection)
    monkeypatch.setattr(rebuild, "call_command", lambda *_, **__: None)
    return store


def arguments(folder: Path) -> tuple[str, ...]:
    return "rebuild", f"--data-dir={folder}", f"--inspection={inspection(folder, 1)}"


def test_a_log_is_built_from_the_disks_with_the_given_level(store: MemoryStore, tmp_path: Path) -> None:
    said = run(*arguments(tmp_path), "--level=6")
    assert "Cluster c: 0 topics, 0 partitions, from the disks of 1 brokers" in said
    built = metalog.read_log(BlockingStore(store)).image
    assert (built.cluster_id, built.metadata_version) == ("c", 6)


def test_another_log_is_replaced_only_with_force_and_the_new_one_continues_it(
    store: MemoryStore, tmp_path: Path
) -> None:
    metalog.write_log(BlockingStore(store), image())
    before = dict(store.nodes)
    with pytest.raises(CommandError, match="use --force to delete it"):
        run(*arguments(tmp_path))
    assert store.nodes == before
    run(*arguments(tmp_path), "--force")
    built = metalog.read_log(BlockingStore(store)).image
    assert built.cluster_id == "c"
    assert built.seq > image().seq and built.controller_epoch > image().controller_epoch


def test_nothing_is_written_while_a_controller_acts(store: MemoryStore, tmp_path: Path) -> None:
    store.nodes[znodes.CONTROLLER] = b""
    with pytest.raises(CommandError, match="still running: a controller"):
        run(*arguments(tmp_path), "--force")
    assert set(store.nodes) == {znodes.CONTROLLER}
