"""The metadata log as disaster recovery reads and writes it."""

from __future__ import annotations

import pytest

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, Unreachable
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Entry, MetadataError, RequestCompleted
from controlplane.disaster import metalog
from tests.unit.cluster.memory_store import MemoryStore
from tests.unit.controlplane.disaster.test_backups import image

EPOCH = image().controller_epoch


def store_with_metadata_log() -> tuple[MemoryStore, BlockingStore, Image]:
    store = MemoryStore()
    zk = BlockingStore(store)
    first = image()
    metalog.write_log(zk, first)
    return store, zk, first


def append(store: MemoryStore, seq: int, previous: str, request_id: str) -> None:
    entry = Entry(seq, EPOCH, f"b{seq}", previous, (RequestCompleted(request_id, 0, None, {}),))
    store.nodes[znodes.entry(seq)] = entry.encode()
    store.nodes[znodes.HEAD] = str(seq).encode()


def test_a_written_log_is_read_as_the_same_image() -> None:
    _, zk, first = store_with_metadata_log()
    read = metalog.read_log(zk)
    assert (read.image.seq, read.image.chain_hash) == (first.seq, first.chain_hash)
    assert list(read.image.records()) == list(first.records())
    assert read.entries == {} and read.pointer is not None


def test_without_a_head_the_log_is_empty() -> None:
    assert metalog.read_log(BlockingStore(MemoryStore())).image.seq == Image().seq


def test_entries_after_the_snapshot_are_applied_and_their_records_are_given_by_number() -> None:
    store, zk, first = store_with_metadata_log()
    append(store, first.seq + 1, first.chain_hash, "r1")
    append(store, first.seq + 2, metalog.read_log(zk).image.chain_hash, "r2")
    read = metalog.read_log(zk)
    assert read.image.seq == first.seq + 2
    assert [r.request_id for r in read.records_after(first.seq + 1) if isinstance(r, RequestCompleted)] == ["r2"]
    assert len(list(read.records_after(first.seq))) == 2


def test_an_entry_that_does_not_continue_the_chain_is_an_error() -> None:
    store, zk, first = store_with_metadata_log()
    append(store, first.seq + 1, "0" * 64, "r1")
    with pytest.raises(MetadataError):
        metalog.read_log(zk)


def test_an_entry_missing_in_every_attempt_is_reported() -> None:
    store, zk, first = store_with_metadata_log()
    store.nodes[znodes.HEAD] = str(first.seq + 1).encode()
    with pytest.raises(Unreachable, match="truncated during each read"):
        metalog.read_log(zk)


def test_a_missing_chunk_is_reported() -> None:
    store, zk, _ = store_with_metadata_log()
    chunk = next(p for p in store.nodes if p.startswith(f"{znodes.SNAPSHOTS}/") and p.endswith("/000000"))
    del store.nodes[chunk]
    with pytest.raises(Unreachable):
        metalog.read_log(zk)


def test_a_pointer_of_a_newer_version_is_rejected() -> None:
    with pytest.raises(MetadataError, match=r"unknown keys \['colour'\]: it is from a newer version"):
        metalog.read_snapshot({"seq": 1, "hash": "", "epoch": 1, "chunks": 0, "folder": "", "colour": "red"}, [])


def test_a_log_is_not_written_over_another() -> None:
    _, zk, first = store_with_metadata_log()
    with pytest.raises(Unreachable, match="node exists"):
        metalog.write_log(zk, first)


def test_clear_deletes_the_log_so_that_another_can_be_written() -> None:
    store, zk, first = store_with_metadata_log()
    append(store, first.seq + 1, first.chain_hash, "r1")
    metalog.clear(zk)
    assert set(store.nodes) == set(znodes.PERSISTENT)
    metalog.write_log(zk, first)
    assert metalog.read_log(zk).image.seq == first.seq
