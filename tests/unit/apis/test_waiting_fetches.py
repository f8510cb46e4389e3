"""Delayed fetches: one per connection, and a limited number per principal. An append checks only the fetches that it can complete."""

from __future__ import annotations

from typing import Any

from brokerd.replication.purgatory import WaitingFetches
from brokerd.wire.messages import FetchRequest, FetchResponse
from tests.unit.apis.requests import FakeRequest
from tests.unit.apis.test_fetch import size
from tests.unit.apis.test_fetch_sessions import FOLLOWER, Client, M


class Scene(Client):
    def __init__(self, **more: Any) -> None:
        super().__init__(1, **more)
        self.requested = 0
        enough = self.api._reader.enough

        def count_request(*given: Any) -> bool:
            self.requested += 1
            return enough(*given)

        self.api._reader.enough = count_request  # type: ignore[method-assign]

    def fetch(
        self, *, min_bytes: int = 1, offset: int = 0, follower: Any = None, principal: str = "User:ANONYMOUS"
    ) -> tuple[FakeRequest, list[FetchResponse]]:
        """A fetch without a session."""
        part = FetchRequest.FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 30
        )
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(follower.broker_id, follower.broker_epoch) if follower else None,
            max_wait_ms=500,
            min_bytes=min_bytes,
            max_bytes=1 << 30,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic="m", topic_id=M, partitions=[part])],
            rack_id="",
            forgotten_topics_data=[],
        )
        responses: list[FetchResponse] = []
        request = FakeRequest(body, 15, responses.append)
        request.principal = principal
        self.api.handle(request)  # type: ignore[arg-type]
        return request, responses


def test_a_waiting_fetch_is_checked_only_when_min_bytes_can_be_reached() -> None:
    scene = Scene()
    _, responses = scene.fetch(min_bytes=100_000)
    scene.requested = 0
    for _ in range(9):
        scene.append(0, size=10_000)
    assert (scene.requested, responses) == (0, [])
    scene.append(0, size=10_000)
    assert scene.requested == 1
    assert size(responses[0], 0) >= 100_000


def test_a_hundred_waiting_fetches_for_a_gigabyte_do_not_slow_appends_and_time_out() -> None:
    scene = Scene()
    responses = [scene.fetch(min_bytes=1 << 30)[1] for _ in range(100)]
    scene.requested = 0
    scene.append(0, count=100, size=100)
    assert scene.requested == 0
    scene.advance(500)
    assert all(len(a) == 1 and a[0].responses[0].partitions[0].records for a in responses), "what there is by then"


def test_appended_bytes_count_for_a_waiting_fetch_when_they_are_replicated() -> None:
    scene = Scene(followed=True)
    scene.append(0, count=3, size=1_000)
    _, responses = scene.fetch(min_bytes=2_000)
    assert responses == []
    scene.fetch(offset=3, follower=FOLLOWER)
    assert len(responses) == 1, "nothing was appended, the high watermark rose"


def test_a_waiting_fetch_blocks_its_connection_and_a_followers_does_not() -> None:
    scene = Scene(followed=True)
    client, _ = scene.fetch()
    follower, _ = scene.fetch(follower=FOLLOWER)
    assert (client.blocked, client.broker) == (True, False)
    assert (follower.blocked, follower.broker) == (False, True)
    completed, responses = scene.fetch(offset=99)
    assert (completed.blocked, len(responses)) == (False, 1)


def test_a_fetch_above_the_limit_waits_for_its_time_out_and_followers_do_not_count() -> None:
    scene = Scene(followed=True)
    scene.api._waiting = WaitingFetches(lambda: 2, lambda: 100)
    clients = [scene.fetch(principal="User:a")[1] for _ in range(3)]
    other = scene.fetch(principal="User:b")[1]
    followers = [scene.fetch(follower=FOLLOWER)[1] for _ in range(3)]
    scene.append(0)
    assert [len(a) for a in followers] == [1, 1, 1]
    scene.fetch(offset=1, follower=FOLLOWER)  # now it is replicated
    assert [len(a) for a in clients] == [1, 1, 0]
    assert len(other) == 1
    scene.advance(500)
    assert len(clients[2]) == 1 and clients[2][0].responses[0].partitions[0].records
    assert not scene.api._waiting.by_principal


def test_a_waiting_fetch_of_a_disconnected_client_is_removed() -> None:
    scene = Scene()
    request, responses = scene.fetch()
    assert len(scene.harness.replica_manager.purgatory) == 1
    request.abandoned = True
    request.gone()
    assert (len(scene.harness.replica_manager.purgatory), responses) == (0, [])
    assert not scene.api._waiting.by_address
