"""The command `upgrade_metadata`: its request, the controller's response, the levels that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.core.management.base import CommandError

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore
from brokerd.cluster.metadata import Entry, RequestCompleted
from brokerd.cluster.requests import ForwardedRequest, RaiseMetadataLevel
from controlplane.disaster import metalog
from controlplane.management.commands import upgrade_metadata
from tests.unit.cluster.memory_store import MemoryStore
from tests.unit.controlplane.disaster.test_backups import image
from tests.unit.controlplane.management.commands.local_cluster import run

ADDRESS = "--zookeeper=zk:2181"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore()
    zk = BlockingStore(store)
    metalog.write_log(zk, image())

    @contextmanager
    def connect_to_store(_: object) -> Iterator[BlockingStore]:
        yield zk

    monkeypatch.setattr(upgrade_metadata, "zookeeper_store", lambda *_: store)
    monkeypatch.setattr(upgrade_metadata, "connected", connect_to_store)
    return store


def patch_responses(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, error: int, message: str | None, level: int
) -> list[ForwardedRequest]:
    """A controller: it answers the request when the command reads the log again. The requests that it has read."""
    requests: list[ForwardedRequest] = []
    read_log = metalog.read_log

    def read(zk: BlockingStore) -> metalog.MetadataLogRead:
        before = read_log(zk)
        waiting = [p for p in store.nodes if p.startswith(f"{znodes.REQUESTS}/")]
        if not waiting or requests:
            return before
        request_id = waiting[0].rpartition("/")[2]
        requests.append(ForwardedRequest.decode(request_id, store.nodes[waiting[0]]))
        records = tuple(RequestCompleted(r, error, message, {"level": level}) for r in ("other", request_id))
        seq = before.image.seq + 1
        store.nodes[znodes.entry(seq)] = Entry(
            seq, before.image.controller_epoch, "b", before.image.chain_hash, records
        ).encode()
        store.nodes[znodes.HEAD] = str(seq).encode()
        return read_log(zk)

    monkeypatch.setattr(upgrade_metadata, "read_log", read)
    return requests


def test_the_level_that_the_controller_reached_is_printed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = patch_responses(store, monkeypatch, 0, None, 7)
    assert "The cluster is at metadata level 7." in run("upgrade_metadata", ADDRESS, "--level=7")
    assert [r.payload for r in requests] == [RaiseMetadataLevel(principal="manage.py", level=7)]


def test_a_rejection_is_an_error_with_the_controllers_reason(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_responses(store, monkeypatch, 42, "broker 2 supports 1 to 6", 6)
    with pytest.raises(CommandError, match=r"^Not raised: broker 2 supports 1 to 6\.$"):
        run("upgrade_metadata", ADDRESS)


def test_without_a_controller_the_outcome_is_unknown(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade_metadata, "WAIT_SECONDS", 0.01)
    with pytest.raises(CommandError, match="No controller answered in 0 s; the level may have changed"):
        run("upgrade_metadata", ADDRESS)


def test_show_prints_the_level_and_the_supported_levels_of_each_broker_and_writes_nothing(store: MemoryStore) -> None:
    registration = znodes.Registration(2, "u", "h", 9092, None, None, tail_intact=True)
    store.nodes[znodes.broker(2)] = replace(registration, metadata_levels=(3, 8)).encode()
    before = dict(store.nodes)
    shown = run("upgrade_metadata", ADDRESS, "--show")
    assert f"level {image().metadata_version}\n" in shown and "broker 2 supports 3 to 8" in shown
    assert store.nodes == before


def test_an_unreachable_zookeeper_is_an_error_of_the_command(store: MemoryStore) -> None:
    store.lost = True
    with pytest.raises(CommandError, match="connection to ZooKeeper was lost"):
        run("upgrade_metadata", ADDRESS, "--show")
