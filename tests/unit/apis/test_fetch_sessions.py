"""Fetch sessions (KIP-227) from a client's view. Requests and responses contain only changed partitions, and no change is lost."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.fetch import FetchApi
from brokerd.apis.fetch_sessions import EVICTION_MS, PartitionRequest, Sessions
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.configs import LONG_MAX
from brokerd.cluster.metadata import BrokerUp, MetadataRecord, PartitionChanged, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.replication.partition_events import LogStartRaised
from brokerd.replication.purgatory import Purgatory, WaitingFetches
from brokerd.replication.replica import Replica
from brokerd.replication.throttles import Throttles
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import FakeRequest, immediate_background_work
from tests.unit.replication.test_relocations import Harness

M = UUID(int=8)
FOLLOWER = ReplicaIncarnation(2, 12)
LAG_MS = 10_000


class Client:
    """Sends fetches to a broker that leads the partitions of one topic, alone or with broker 2 as a follower."""

    def __init__(self, partitions: int = 3, *, followed: bool = False, slots: int = 10) -> None:
        self.harness = Harness(SimDisk())
        self.throttles = Throttles(
            1, lambda name: int(self.harness.image.broker_configs.get(1, (0, {}))[1].get(name, LONG_MAX))
        )
        isr_members = (ReplicaIncarnation(1, 11), FOLLOWER) if followed else (ReplicaIncarnation(1, 11),)
        state = PartitionState(tuple(s.broker_id for s in isr_members), isr_members, 1, 11)
        self.apply_records(
            BrokerUp(2, 12, "v", "h", 2),
            TopicCreated(M, "m", partitions, {}, 1),
            *(PartitionChanged(M, i, state) for i in range(partitions)),
            TopicReady(M),
        )
        drawn = iter(range(100, 10_000))
        self.sessions = Sessions(self.harness.replica_manager.purgatory, lambda: next(drawn), slots=slots)
        self.api = FetchApi(
            SimpleNamespace(now=self.harness.now),
            self.harness.replica_manager,
            self.sessions,
            bytes_max=1 << 20,
            throttles=self.throttles,
            background_work=immediate_background_work(),
            waiting=WaitingFetches(lambda: 1_000, lambda: 1_000),
            auth=ALLOW_ALL,
        )  # type: ignore[arg-type]
        self.session_id = self.epoch = 0

    def apply_records(self, *made: MetadataRecord) -> None:
        for record in made:
            self.harness.image.apply(record)
        self.throttles.apply(self.harness.image, made, self.harness.now.mono_ms)
        self.harness.replica_manager.apply(self.harness.image, made, self.harness.now)
        while self.harness.replica_manager.open_pending(self.harness.now, clock=lambda: 0.0):
            pass

    def replica(self, index: int) -> Replica:
        return self.harness.replica_manager.hosted[TopicPartition(M, index)]

    def append(self, index: int, count: int = 1, size: int = 10) -> None:
        replica = self.replica(index)
        for _ in range(count):
            data = bytearray(records.build([records.Record(0, 2_000_000, None, b"v" * size)]))
            replica.log.append(data, records.check(data), 0, self.harness.now)
            self.harness.replica_manager.on_appended(replica, self.harness.now)

    def advance(self, ms: int) -> None:
        """Advances the clock and runs the timers that expire."""
        self.harness.now = Now(self.harness.now.mono_ms + ms, self.harness.now.wall_ms + ms)
        self.api._loop.now = self.harness.now
        self.harness.replica_manager.purgatory.expire(self.harness.now.mono_ms)
        for _ in range(2 * LAG_MS // 100):
            self.harness.replica_manager.tick(self.harness.now)

    def send(
        self,
        named: dict[int, int],
        *,
        forget: tuple[int, ...] = (),
        session: tuple[int, int] | None = None,
        follower: ReplicaIncarnation | None = None,
        wait_ms: int = 500,
        bytes_max: int = 1 << 20,
        version: int = 15,
        leader_epoch: int = -1,
        topic: UUID = M,
        min_bytes: int = 1,
        rack: str = "",
        log_start: int = 0,
        remote_start: int = -1,
    ) -> list[FetchResponse]:
        """Sends a fetch and returns the responses; the list is empty while the fetch waits. `named`: {partition: fetch offset}."""
        parts = [
            FetchRequest.FetchPartition(
                partition=i,
                current_leader_epoch=leader_epoch,
                fetch_offset=o,
                log_start_offset=log_start,
                partition_max_bytes=1 << 20,
                remote_start=remote_start,
            )
            for i, o in named.items()
        ]
        session_id, epoch = session or (self.session_id, self.epoch)
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(follower.broker_id, follower.broker_epoch) if follower else None,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=bytes_max,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchRequest.FetchTopic(topic="m", topic_id=topic, partitions=parts)] if parts else [],
            rack_id=rack,
            forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="m", topic_id=M, partitions=list(forget))]
            if forget
            else [],
        )
        responses: list[FetchResponse] = []

        def reply(response: FetchResponse) -> None:
            responses.append(response)
            if session is None and not response.error_code:
                self.session_id, self.epoch = response.session_id, (self.epoch + 1 if response.session_id else 0)

        self.api.handle(FakeRequest(body, version, reply))  # type: ignore[arg-type]
        return responses

    def fetch(self, named: dict[int, int], **more: Any) -> FetchResponse:
        """Sends a fetch that is answered at once."""
        responses = self.send(named, wait_ms=0, **more)
        assert len(responses) == 1
        return responses[0]


def errors_and_bytes(response: FetchResponse) -> dict[int, tuple[int, int]]:
    """{partition: (error, bytes of records)}."""
    return {
        p.partition_index: (p.error_code, sum(r.length for r in _regions(p.records)))
        for t in response.responses
        for p in t.partitions
    }


def _regions(data: Any) -> list[Any]:
    return data if isinstance(data, list) else [data] if data else []


def high_watermarks(response: FetchResponse) -> dict[int, int]:
    return {p.partition_index: p.high_watermark for t in response.responses for p in t.partitions}


def test_a_full_fetch_creates_a_session_and_the_next_fetch_has_changes_only() -> None:
    client = Client()
    first = client.fetch({0: 0, 1: 0, 2: 0})
    assert first.session_id and sorted(errors_and_bytes(first)) == [0, 1, 2]
    waiting = client.send({})
    assert not waiting, "nothing is new"
    client.append(1)
    assert len(waiting) == 1 and list(errors_and_bytes(waiting[0])) == [1] and waiting[0].session_id == first.session_id
    waiting = client.send({1: 1})
    assert not waiting
    client.advance(501)
    assert len(waiting) == 1 and not waiting[0].responses and not waiting[0].error_code
    client.append(2)
    assert list(errors_and_bytes(client.fetch({}))) == [2], "what came between two fetches"


def test_partitions_omitted_by_the_size_limit_are_returned_first_in_the_next_response() -> None:
    client = Client()
    client.fetch({0: 0, 1: 0, 2: 0})
    for index in range(3):
        client.append(index, size=1000)
    seen = [
        next(i for i, (_, size) in errors_and_bytes(client.fetch({}, bytes_max=100)).items() if size) for _ in range(6)
    ]
    assert seen == [0, 1, 2, 0, 1, 2]


def test_min_bytes_counts_all_partitions_of_the_session() -> None:
    client = Client()
    client.fetch({0: 0, 1: 0, 2: 0})
    waiting = client.send({}, min_bytes=600)
    client.append(0, size=150)
    client.append(1, size=150)
    assert not waiting
    client.append(2, size=150)
    assert sorted(errors_and_bytes(waiting[0])) == [0, 1, 2]


def test_each_error_of_a_session() -> None:
    client = Client(followed=True)
    session_id = client.fetch({0: 0}).session_id
    assert client.fetch({}, session=(session_id + 1, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch({}, session=(0, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch({}, session=(session_id, 2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch({}, session=(session_id, -2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch({}, session=(session_id, 1), version=12).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert (
        client.fetch({}, session=(session_id, 1), follower=FOLLOWER).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    response = client.fetch({})
    assert response.session_id == session_id and not response.error_code, "an error cost the session"
    for error in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"):
        assert not client.fetch({}, session=(9, 9)).responses, error


def test_a_full_fetch_closes_its_session_and_only_epoch_0_creates_another() -> None:
    client = Client()
    old = client.fetch({0: 0}).session_id
    new = client.fetch({0: 0}, session=(old, 0)).session_id
    assert new not in (0, old)
    assert client.fetch({}, session=(old, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    last = client.fetch({0: 0}, session=(new, -1))
    assert last.session_id == 0 and list(errors_and_bytes(last)) == [0] and len(client.sessions) == 0


def test_without_a_slot_and_before_version_7_there_is_no_session() -> None:
    assert Client(slots=0).fetch({0: 0}).session_id == 0
    client = Client()
    assert client.fetch({0: 0}, session=(0, -1), version=6).session_id == 0 and len(client.sessions) == 0


def test_a_forgotten_partition_is_not_returned_and_an_empty_session_is_closed() -> None:
    client = Client()
    client.fetch({0: 0, 1: 0})
    waiting = client.send({}, forget=(0,))
    client.append(0)
    assert not waiting
    client.append(1)
    assert list(errors_and_bytes(waiting[0])) == [1]
    ended = client.fetch({}, forget=(1,))
    assert ended.session_id == 0 and not ended.responses and len(client.sessions) == 0
    assert not client.harness.replica_manager.purgatory._watchers, "watches of what is gone"


def test_a_fetch_with_an_old_session_epoch_gets_an_error() -> None:
    client = Client()
    session_id = client.fetch({0: 0}).session_id
    waiting = client.send({}, session=(session_id, 1))
    assert not client.fetch({}, session=(session_id, 2)).error_code
    client.advance(501)
    assert waiting[0].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_partition_error_is_returned_until_it_is_resolved() -> None:
    client = Client(2)
    later = UUID(int=9)
    first = client.send({0: 0}, topic=later)
    assert errors_and_bytes(first[0]) == {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)} and first[0].session_id
    assert errors_and_bytes(client.send({})[0]) == {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}
    led = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
    client.apply_records(TopicCreated(later, "later", 1, {}, 1), PartitionChanged(later, 0, led), TopicReady(later))
    assert errors_and_bytes(client.fetch({})) == {0: (ErrorCode.NONE, 0)}
    assert not client.send({}), "reported one time"
    elsewhere = PartitionState((1,), (ReplicaIncarnation(1, 11),), 2, 12, 1, 1)
    client.apply_records(PartitionChanged(later, 0, elsewhere))
    assert errors_and_bytes(client.fetch({})) == {0: (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)}


def test_the_deletion_of_a_topic_completes_a_waiting_fetch() -> None:
    client = Client(1)
    client.fetch({0: 0})
    waiting = client.send({})
    client.apply_records(TopicDeleted(M, "m", 2))
    assert waiting and errors_and_bytes(waiting[0])[0][0] != ErrorCode.NONE
    assert errors_and_bytes(client.fetch({})) == {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}


def test_offset_out_of_range_is_returned_until_the_fetch_offset_changes() -> None:
    client = Client(1)
    assert errors_and_bytes(client.fetch({0: 5}))[0][0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert errors_and_bytes(client.send({})[0])[0][0] == ErrorCode.OFFSET_OUT_OF_RANGE
    client.append(0)
    assert errors_and_bytes(client.fetch({0: 0}))[0] == (ErrorCode.NONE, client.replica(0).log.size_bytes)


def test_a_changed_log_start_offset_is_returned() -> None:
    client = Client(2)
    client.fetch({0: 0, 1: 0})
    client.append(0, 3)
    assert list(errors_and_bytes(client.fetch({0: 3}))) == [0], "its watermark"
    client.replica(0).log.raise_start(2)
    client.harness.replica_manager.run(client.replica(0), LogStartRaised(2), client.harness.now)
    response = client.fetch({})
    assert [p.log_start_offset for t in response.responses for p in t.partitions] == [2]


# -- followers -----------------------------------------------------------------------------------------------------------
def test_a_raised_high_watermark_is_in_the_next_response_to_a_follower() -> None:
    client = Client(3, followed=True)
    client.fetch({0: 0, 1: 0, 2: 0}, follower=FOLLOWER)
    waiting = client.send({}, follower=FOLLOWER)
    client.append(1)
    assert high_watermarks(waiting[0]) == {1: 0}, "the record, not committed yet"
    waiting = client.send({1: 1}, follower=FOLLOWER)
    assert client.replica(1).core.high_watermark == 1 and not waiting, "a watermark alone ends no wait"
    client.advance(501)
    assert high_watermarks(waiting[0]) == {1: 1}
    assert not client.fetch({}, follower=FOLLOWER).responses, "reported one time"


def test_a_high_watermark_raised_by_another_follower_is_returned_too() -> None:
    client = Client(1, followed=True)
    third = ReplicaIncarnation(3, 14)
    client.apply_records(BrokerUp(3, 14, "w", "h", 3))
    client.apply_records(
        PartitionChanged(M, 0, PartitionState((1, 2, 3), (ReplicaIncarnation(1, 11), FOLLOWER, third), 1, 11, 1, 1))
    )
    client.append(0)
    client.fetch({0: 0}, follower=FOLLOWER)
    assert high_watermarks(client.fetch({0: 1}, follower=FOLLOWER)) == {0: 0}
    waiting = client.send({}, follower=FOLLOWER)
    client.fetch({0: 1}, session=(0, -1), follower=third)
    assert client.replica(0).core.high_watermark == 1 and not waiting
    client.advance(501)
    assert high_watermarks(waiting[0]) == {0: 1}


def test_a_follower_with_unchanged_fetch_positions_stays_in_the_isr() -> None:
    client = Client(2, followed=True)
    client.fetch({0: 0, 1: 0}, follower=FOLLOWER)
    for _ in range(4):
        client.advance(LAG_MS // 2)
        client.fetch({}, follower=FOLLOWER)
    assert not client.harness.replica_manager.controller_proposals.isrs
    client.fetch({}, forget=(1,), follower=FOLLOWER)
    for _ in range(3):
        client.advance(LAG_MS // 2)
        client.fetch({}, follower=FOLLOWER)
    assert list(client.harness.replica_manager.controller_proposals.isrs) == [TopicPartition(M, 1)], (
        "a partition that left the session does not count as fetched"
    )
    client.advance(LAG_MS + 1)
    assert sorted(tp.partition for tp in client.harness.replica_manager.controller_proposals.isrs) == [0, 1], (
        "nobody asked"
    )


def test_a_lagging_follower_leaves_the_isr_although_its_session_exists() -> None:
    client = Client(2, followed=True)
    client.fetch({0: 0, 1: 0}, follower=FOLLOWER)
    client.append(0)
    for _ in range(3):
        client.advance(LAG_MS // 2)
        assert errors_and_bytes(client.fetch({}, follower=FOLLOWER))[0][1] > 0, "the record, again"
    assert [tp.partition for tp in client.harness.replica_manager.controller_proposals.isrs] == [0]
    assert client.replica(0).core.high_watermark == 0


def test_a_new_leader_epoch_needs_a_new_fetch_position() -> None:
    """As after a reset: offsets that the follower fetched under the old epoch are not valid any more."""
    client = Client(1, followed=True)
    client.append(0)
    client.fetch({0: 1}, follower=FOLLOWER, leader_epoch=0)
    assert client.replica(0).core.followers[2].log_end == 1
    waiting = client.send({}, follower=FOLLOWER)
    isr_members = (ReplicaIncarnation(1, 11), FOLLOWER)
    client.apply_records(PartitionChanged(M, 0, PartitionState((1, 2), isr_members, 1, 11, 1, 1)))
    assert errors_and_bytes(waiting[0])[0][0] == ErrorCode.FENCED_LEADER_EPOCH
    assert errors_and_bytes(client.fetch({}, follower=FOLLOWER))[0][0] == ErrorCode.FENCED_LEADER_EPOCH
    assert client.replica(0).core.followers[2].log_end == -1, "believed under another epoch"
    assert errors_and_bytes(client.fetch({0: 0}, follower=FOLLOWER, leader_epoch=1))[0][1] > 0
    assert client.replica(0).core.followers[2].log_end == 0


def test_a_session_of_a_deleted_replica_does_not_affect_the_new_replica() -> None:
    """The partition is deleted and created again under the same id (moved away and back). The old session must not
    withdraw the ISR proposal of the new replica."""
    client = Client(1, followed=True)
    tp = TopicPartition(M, 0)
    client.fetch({0: 0}, follower=FOLLOWER)
    elsewhere = PartitionState((2,), (FOLLOWER,), 2, 12, 1, 1)
    both = PartitionState((1, 2), (ReplicaIncarnation(1, 11),), 1, 11, 2, 2)
    old = client.replica(0)
    client.apply_records(PartitionChanged(M, 0, elsewhere))
    client.apply_records(PartitionChanged(M, 0, both))
    assert client.replica(0) is not old
    other = client.fetch({0: 0}, session=(0, -1), follower=FOLLOWER)
    assert not other.error_code and tp in client.harness.replica_manager.controller_proposals.isrs, (
        "it is complete, and may enter"
    )
    client.fetch({}, forget=(0,), follower=FOLLOWER)
    assert tp in client.harness.replica_manager.controller_proposals.isrs


def test_only_the_current_broker_epoch_has_a_session() -> None:
    client = Client(1, followed=True)
    client.fetch({0: 0}, follower=FOLLOWER)
    client.apply_records(BrokerUp(2, 13, "v", "h", 2))
    assert client.fetch({}, follower=FOLLOWER).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert client.fetch({}, follower=ReplicaIncarnation(2, 13)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# -- the cache -----------------------------------------------------------------------------------------------------------
class Cache:
    def __init__(self, slots: int, draws: Iterable[int] = range(100)) -> None:
        drawn = iter(draws)
        self.sessions = Sessions(Purgatory(), lambda: next(drawn), slots=slots)

    def begin(self, size: int, now_ms: int, follower: ReplicaIncarnation | None = None) -> int:
        wanted = FetchRequest.FetchPartition(partition=0)
        partition_requests = {("t", i): PartitionRequest("t", M, wanted, None, ErrorCode.NONE) for i in range(size)}
        session = self.sessions.begin(partition_requests, follower, False, now_ms, None)  # type: ignore[arg-type]
        return session.session_id if session is not None else 0

    def lives(self, session_id: int) -> bool:
        return session_id in self.sessions._by_id


def test_session_ids_are_unique_and_never_0() -> None:
    cache = Cache(3, [0, 0, 1, 2**31 - 1, 2])
    assert [cache.begin(1, 0) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("age_ms", "gone"), [(EVICTION_MS, False), (EVICTION_MS + 1, True)])
def test_an_unused_session_is_evicted_after_two_minutes(age_ms: int, gone: bool) -> None:
    cache = Cache(1)
    old = cache.begin(5, 0)
    new = cache.begin(1, age_ms)
    assert (new != 0, cache.lives(old)) == (gone, not gone)


def test_a_larger_session_evicts_the_smallest_session_after_two_minutes() -> None:
    cache = Cache(2)
    small, large = cache.begin(2, 0), cache.begin(9, 0)
    for session in list(cache.sessions._by_id.values()):
        cache.sessions.advance_epoch(session, EVICTION_MS)
    assert cache.begin(3, EVICTION_MS) == 0, "too young to go"
    assert cache.begin(2, EVICTION_MS + 1) == 0, "no larger"
    assert cache.begin(3, EVICTION_MS + 1) and not cache.lives(small) and cache.lives(large)


def test_a_followers_session_evicts_a_consumers_session_and_never_the_reverse() -> None:
    cache = Cache(1)
    consumer = cache.begin(9, 0)
    follower = cache.begin(1, 1, FOLLOWER)
    assert follower and not cache.lives(consumer)
    for session in list(cache.sessions._by_id.values()):
        cache.sessions.advance_epoch(session, EVICTION_MS)
    assert cache.begin(9, EVICTION_MS + 2) == 0 and cache.lives(follower)
    assert cache.begin(2, EVICTION_MS + 2, ReplicaIncarnation(3, 13)) == 3 and not cache.lives(follower)


def test_a_follower_counts_only_after_the_leader_has_read_its_registration() -> None:
    """The leader ignores the fetch until then, and the session does not repeat the position. Before the fix, the move
    of a partition without writes never ended."""
    client = Client(1)
    client.append(0)
    assert errors_and_bytes(client.fetch({0: 1}, follower=FOLLOWER)) == {0: (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)}
    state = PartitionState((1, 2), (ReplicaIncarnation(1, 11),), 1, 11, partition_epoch=1, adding=(2,))
    client.apply_records(PartitionChanged(M, 0, state))
    tp = TopicPartition(M, 0)
    assert tp not in client.harness.replica_manager.controller_proposals.isrs
    assert errors_and_bytes(client.fetch({0: 1}, follower=FOLLOWER)) == {0: (0, 0)}
    assert client.harness.replica_manager.controller_proposals.isrs[tp].isr == (ReplicaIncarnation(1, 11), FOLLOWER)
