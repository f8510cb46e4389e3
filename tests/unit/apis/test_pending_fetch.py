"""An answered fetch is freed immediately, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from brokerd.apis.pending_fetch import PendingFetch
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.replication.purgatory import DelayedOperation
from tests.unit.apis.test_fetch_sessions import FOLLOWER, Client


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pending() -> list[object]:
    return [o for o in gc.get_objects() if isinstance(o, (PendingFetch, DelayedOperation))]


@pytest.mark.usefixtures("no_collector")
def test_a_fetch_without_a_session_is_freed() -> None:
    client = Client()
    client.append(0)
    assert len(client.send({0: 0}, session=(0, -1))) == 1
    assert not pending()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("follower", [None, FOLLOWER], ids=["consumer", "follower"])
def test_a_fetch_that_waited_for_records_is_freed(follower: ReplicaIncarnation | None) -> None:
    client = Client(followed=follower is not None)
    client.append(0)
    assert client.send({0: 0}, follower=follower)
    waiting = client.send({0: 1}, follower=follower)
    assert not waiting
    assert len(pending()) == 2  # the fetch and its operation
    client.append(0)
    assert len(waiting) == 1
    assert not pending()


@pytest.mark.usefixtures("no_collector")
def test_a_fetch_that_expired_is_freed() -> None:
    client = Client()
    waiting = client.send({0: 0}, session=(0, -1))
    assert not waiting
    client.passes(500)
    assert len(waiting) == 1
    assert not pending()
