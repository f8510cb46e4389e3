"""The blocking client: writes in pieces, removed trees, errors instead of retries."""

from __future__ import annotations

import pytest

from brokerd.cluster import blocking
from brokerd.cluster.blocking import BlockingStore, Unreachable, connected
from brokerd.cluster.store import Create
from tests.unit.cluster.memory_store import MemoryStore


def test_a_call_returns_the_response_and_the_store_is_closed_at_the_end() -> None:
    store = MemoryStore({"/a": b"1", "/a/b": b"2", "/a/c": b"3"})
    with connected(store) as zk:
        assert zk.get("/a").data == b"1" and zk.children("/a") == ("b", "c") and zk.children("/none") == ()
        assert not zk.get("/none").ok and zk.delete("/a/c").ok
    assert store.closed and store.nodes == {"/a": b"1", "/a/b": b"2"}


def test_no_response_within_the_time_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "_respond_later", lambda done, result: None)
    with pytest.raises(Unreachable, match=r"did not respond within 0 s \(/a\)"):
        BlockingStore(store, 0.01).get("/a")


def test_a_lost_connection_is_unreachable() -> None:
    store = MemoryStore({"/a": b""})
    store.lost = True
    with pytest.raises(Unreachable, match=r"connection to ZooKeeper was lost \(/a\)"):
        BlockingStore(store).get("/a")


def test_no_session_within_the_time_is_unreachable_and_the_store_is_closed() -> None:
    store = MemoryStore()
    store.zk_session = 0
    with pytest.raises(Unreachable, match=r"\(connecting\)"), connected(store, 0.01):
        pass
    assert store.closed


def test_operations_are_split_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "MULTI_OPERATIONS_MAX", 3)
    monkeypatch.setattr(blocking, "MULTI_BYTES_MAX", 100)
    store = MemoryStore()
    sizes = [1, 1, 1, 1, 60, 60, 200, 1]
    BlockingStore(store).in_pieces([Create(f"/n{i}", bytes(n)) for i, n in enumerate(sizes)])
    assert [[len(o.data) for o in piece] for piece in store.multis] == [[1, 1, 1], [1, 60], [60], [200], [1]]
    assert [len(store.nodes[f"/n{i}"]) for i in range(8)] == sizes


def test_a_rejected_piece_stops_the_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "MULTI_OPERATIONS_MAX", 1)
    store = MemoryStore({"/b": b"other"})
    with pytest.raises(Unreachable, match=r"rejected a write \(node exists\)"):
        BlockingStore(store).in_pieces([Create("/a", b""), Create("/b", b""), Create("/c", b"")])
    assert set(store.nodes) == {"/a", "/b"} and store.nodes["/b"] == b"other"


def test_a_tree_and_leaves_are_removed() -> None:
    store = MemoryStore(dict.fromkeys(("/a", "/a/b", "/a/b/c", "/a/d", "/l", "/l/1", "/l/2"), b""))
    zk = BlockingStore(store)
    zk.remove_tree("/a")
    zk.remove_tree("/none")
    zk.remove_leaves("/l")
    assert set(store.nodes) == {"/l"}
