"""An answered fetch is freed immediately, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from brokerd.apis.pending_fetch import PendingFetch
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.replication.purgatory import DelayedOperation
from tests.unit.apis.test_fetch_sessions import FOLLOWER, Client


def _pending() -> list[object]:
    # Not `isinstance`: it fails for a weak proxy of an object that another test has left and that no longer exists.
    return [o for o in gc.get_objects() if issubclass(type(o), (PendingFetch, DelayedOperation))]


@pytest.fixture
def pending() -> Iterator[Callable[[], list[object]]]:
    """Lists the fetches and operations of this test that exist. Other tests of the process may have left some."""
    gc.collect()
    gc.disable()
    before = {id(o): o for o in _pending()}
    yield lambda: [o for o in _pending() if id(o) not in before]
    gc.enable()


def test_a_fetch_without_a_session_is_freed(pending: Callable[[], list[object]]) -> None:
    client = Client()
    client.append(0)
    assert len(client.send({0: 0}, session=(0, -1))) == 1
    assert not pending()


@pytest.mark.parametrize("follower", [None, FOLLOWER], ids=["consumer", "follower"])
def test_a_fetch_that_waited_for_records_is_freed(
    follower: ReplicaIncarnation | None, pending: Callable[[], list[object]]
) -> None:
    client = Client(followed=follower is not None)
    client.append(0)
    assert client.send({0: 0}, follower=follower)
    waiting = client.send({0: 1}, follower=follower)
    assert not waiting
    assert len(pending()) == 2  # the fetch and its operation
    client.append(0)
    assert len(waiting) == 1
    assert not pending()


def test_a_fetch_that_expired_is_freed(pending: Callable[[], list[object]]) -> None:
    client = Client()
    waiting = client.send({0: 0}, session=(0, -1))
    assert not waiting
    client.advance(500)
    assert len(waiting) == 1
    assert not pending()
