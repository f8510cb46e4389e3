"""A follower's fetch requests: each change is sent once, everything is sent again after the session is lost, and
only flushed offsets are sent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.fetch_client import (
    FETCH_PARTITIONS_MAX,
    FIRST_BACKOFF_MS,
    NO_SESSION,
    SESSION_LOST,
    AppendFetched,
    Effect,
    Failed,
    FetchClient,
    FetchResponseReceived,
    OutOfRange,
    PartitionResponse,
    Position,
    Ready,
    SendFetch,
    WakeAt,
    truncation_point,
)
from brokerd.storage.epochs import EpochCache
from brokerd.wire.errors import ErrorCode

TPS = [TopicPartition(UUID(int=7), i) for i in range(3)]


class Follower:
    """Follows three partitions. Its logs are plain numbers."""

    def __init__(self, tps: list[TopicPartition] = TPS) -> None:
        self.ends: dict[TopicPartition, int | None] = dict.fromkeys(tps, 0)
        self.ms = 1000
        self.core = FetchClient(self.position)
        for tp in tps:
            self.core.follow(tp, 1)

    def position(self, tp: TopicPartition) -> Position | None:
        end = self.ends[tp]
        return None if end is None else Position(end, 1, 0)

    def effects_of(self, event: FetchResponseReceived | Failed | Ready) -> list[Effect]:
        return self.core.handle(event, Now(self.ms, 0))

    def next_fetch(self) -> SendFetch:
        (sent,) = self.effects_of(Ready())
        assert isinstance(sent, SendFetch)
        self.core.validate()
        return sent

    def on_response(self, *responses: PartitionResponse, session: int = 5, error: int = 0) -> list[Effect]:
        effects = self.effects_of(FetchResponseReceived(responses, error, session))
        for effect in effects:
            if isinstance(effect, AppendFetched):
                self.ends[effect.tp] = (self.ends[effect.tp] or 0) + len(effect.records)
        return effects


def records(tp: TopicPartition, count: int = 1, high_watermark: int = 0) -> PartitionResponse:
    return PartitionResponse(tp, 0, high_watermark, 0, b"r" * count)


def fetch_offsets_by_partition(sent: SendFetch) -> dict[int, int]:
    return {f.tp.partition: f.position.fetch_offset for f in sent.partitions}


def test_the_first_fetch_has_all_partitions_and_later_ones_the_changes() -> None:
    follower = Follower()
    sent = follower.next_fetch()
    assert (fetch_offsets_by_partition(sent), sent.session_id, sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 0, 0)
    assert not follower.effects_of(Ready()), "one in flight"
    follower.on_response(*(records(tp, 0) for tp in TPS))
    sent = follower.next_fetch()
    assert (fetch_offsets_by_partition(sent), sent.session_id, sent.session_epoch) == ({}, 5, 1)
    follower.on_response(records(TPS[1], 4))
    sent = follower.next_fetch()
    assert (fetch_offsets_by_partition(sent), sent.session_epoch) == ({1: 4}, 2)


def test_a_lost_fetch_session_is_recreated_immediately() -> None:
    for error in sorted(SESSION_LOST):
        follower = Follower()
        follower.next_fetch()
        follower.on_response()
        follower.next_fetch()
        assert follower.on_response(session=0, error=error) == []
        sent = follower.next_fetch()
        assert (fetch_offsets_by_partition(sent), sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 0), error


def test_a_response_of_another_session_or_with_an_error_causes_a_backoff() -> None:
    for session, error in ((6, 0), (0, 0), (5, 77)):
        follower = Follower()
        follower.next_fetch()
        follower.on_response()
        follower.next_fetch()
        assert follower.on_response(session=session, error=error) == [WakeAt(follower.ms + follower.core.backoff_ms)]
        assert follower.next_fetch().session_epoch == 0


def test_an_error_of_a_full_fetch_causes_a_backoff() -> None:
    follower = Follower()
    follower.next_fetch()
    assert follower.on_response(session=0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND) == [
        WakeAt(follower.ms + follower.core.backoff_ms)
    ]


def test_after_a_lost_connection_the_next_fetch_closes_the_old_session() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.on_response()
    follower.next_fetch()
    follower.effects_of(Failed())
    sent = follower.next_fetch()
    assert (fetch_offsets_by_partition(sent), sent.session_id, sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 5, 0)


def test_a_leader_without_fetch_sessions_gets_full_fetches() -> None:
    follower = Follower()
    for _ in range(3):
        sent = follower.next_fetch()
        assert (len(fetch_offsets_by_partition(sent)), sent.session_id, sent.session_epoch) == (3, 0, 0)
        follower.on_response(session=0)


def test_a_removed_or_unverified_replica_leaves_the_fetch_session() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.on_response()
    follower.core.unfollow(TPS[0])
    follower.ends[TPS[1]] = None  # not flushed yet
    follower.core.mark_dirty(TPS[1])
    sent = follower.next_fetch()
    assert fetch_offsets_by_partition(sent) == {} and sent.forgotten == (TPS[0], TPS[1])
    follower.on_response()
    follower.ends[TPS[1]] = 3
    follower.core.mark_dirty(TPS[1])
    sent = follower.next_fetch()
    assert fetch_offsets_by_partition(sent) == {1: 3} and sent.forgotten == ()


def test_a_partition_with_an_error_waits_outside_the_session() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.on_response(PartitionResponse(TPS[2], ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, b""))
    assert follower.next_fetch().forgotten == (TPS[2],)
    follower.on_response()
    follower.ms += follower.core.backoff_ms
    assert fetch_offsets_by_partition(follower.next_fetch()) == {2: 0}


def test_a_rejected_response_is_fetched_again_later() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.effects_of(FetchResponseReceived((records(TPS[0], 5),), 0, 5))
    follower.core.append_rejected(TPS[0], Now(follower.ms, 0))
    assert follower.next_fetch().forgotten == (TPS[0],)
    follower.on_response()
    follower.ms += 1000
    assert fetch_offsets_by_partition(follower.next_fetch()) == {0: 0}


def test_a_re_added_partition_is_sent_again_with_an_unchanged_offset() -> None:
    """A response may have been dropped in between, with the high watermark that the leader believes to be known."""
    follower = Follower()
    follower.next_fetch()
    follower.on_response()
    follower.next_fetch()
    follower.core.unfollow(TPS[0])
    assert follower.on_response(records(TPS[0], 0, high_watermark=9)) == []
    follower.core.follow(TPS[0], 1)
    assert fetch_offsets_by_partition(follower.next_fetch()) == {0: 0}


def test_a_response_of_an_older_leader_epoch_is_dropped_and_the_new_epoch_is_sent() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.core.follow(TPS[0], 2)
    assert follower.on_response(records(TPS[0], 5)) == []
    sent = follower.next_fetch()
    assert [(f.tp, f.leader_epoch, f.position.fetch_offset) for f in sent.partitions] == [(TPS[0], 2, 0)]


def test_a_response_for_a_truncated_log_is_dropped() -> None:
    follower = Follower()
    follower.ends[TPS[0]] = 8
    follower.next_fetch()
    follower.ends[TPS[0]] = 6
    assert follower.on_response(records(TPS[0], 5)) == []
    assert fetch_offsets_by_partition(follower.next_fetch()) == {0: 6}


def test_offset_out_of_range_causes_a_backoff_and_a_new_fetch_offset() -> None:
    follower = Follower()
    follower.next_fetch()
    response = PartitionResponse(TPS[0], 1, -1, 40, b"", bootstrap_snapshot=b"state")
    assert follower.on_response(response) == [OutOfRange(TPS[0], 40, b"state")]
    follower.ends[TPS[0]] = 40
    follower.next_fetch()
    follower.on_response()
    follower.ms += follower.core.backoff_ms
    assert fetch_offsets_by_partition(follower.next_fetch()) == {0: 40}


def test_partitions_above_the_request_limit_are_sent_in_turn_without_waiting() -> None:
    many = [TopicPartition(UUID(int=7), i) for i in range(FETCH_PARTITIONS_MAX + 5)]
    for session, second in ((5, 5), (0, FETCH_PARTITIONS_MAX)):
        follower = Follower(many)
        first = follower.next_fetch()
        assert len(first.partitions) == FETCH_PARTITIONS_MAX and not first.wait
        follower.on_response(session=session)
        sent = follower.next_fetch()
        assert len(sent.partitions) == second and sent.wait == bool(session)
        assert set(fetch_offsets_by_partition(sent)) >= set(range(FETCH_PARTITIONS_MAX, FETCH_PARTITIONS_MAX + 5)), (
            "never their turn"
        )


def test_the_session_ends_when_no_partition_is_left() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.on_response(*map(records, TPS))
    for tp in TPS:
        follower.core.unfollow(tp)
    ended = follower.next_fetch()
    assert ended == SendFetch((), tuple(TPS), 5, 1, wait=False)
    follower.core.follow(TPS[0], 2)
    assert follower.effects_of(Ready()) == [], "the end of the session is in flight"
    follower.on_response(session=NO_SESSION)
    again = follower.next_fetch()
    assert (again.session_id, again.session_epoch, [p.tp for p in again.partitions]) == (NO_SESSION, 0, [TPS[0]])
    follower.core.unfollow(TPS[0])
    assert follower.effects_of(Failed()) == [WakeAt(follower.ms + follower.core.backoff_ms)]
    assert follower.effects_of(Ready()) == []


def test_without_partitions_no_fetch_is_sent() -> None:
    follower = Follower()
    follower.next_fetch()
    follower.on_response(*(PartitionResponse(tp, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, b"") for tp in TPS))
    assert follower.effects_of(Ready()) == [WakeAt(follower.ms + FIRST_BACKOFF_MS)]
    follower.ms += follower.core.backoff_ms
    assert follower.next_fetch().session_epoch == 0


def test_the_backoff_of_a_partition_doubles_with_each_error() -> None:
    """The first error often ends within some ms, because the leader has not read the metadata log yet."""
    follower = Follower(TPS[:1])
    error = PartitionResponse(TPS[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, b"")
    pauses = []
    for _ in range(7):
        follower.next_fetch()
        follower.on_response(error)
        (wake,) = follower.effects_of(Ready())
        assert isinstance(wake, WakeAt)
        pauses.append(wake.mono_ms - follower.ms)
        follower.ms = wake.mono_ms
    assert pauses == [10, 20, 40, 80, 160, 200, 200]
    follower.next_fetch()
    follower.on_response(records(TPS[0]))
    follower.next_fetch()
    follower.on_response(error)
    assert follower.effects_of(Ready()) == [WakeAt(follower.ms + FIRST_BACKOFF_MS)]


LOG = {0: 5, 2: 9}
"""The follower's epochs and their end offsets. The log ends at 9."""


def end_offset_lookup(epochs: dict[int, int]) -> object:
    def local(epoch: int) -> tuple[int, int]:
        known = [e for e in epochs if e <= epoch]
        return (max(known), epochs[max(known)]) if known else (-1, -1)

    return local


@pytest.mark.parametrize(
    ("epoch", "end", "point"),
    [
        (2, 7, 7),  # the leader's log of the follower's last epoch is shorter
        (2, 9, 9),
        (2, 12, 9),  # the leader's log is longer: no record of the follower diverges
        # The follower lacks epoch 1: all its records after epoch 0 diverge, wherever the leader's epoch 1 ends.
        (1, 8, 5),
        (1, 5, 5),
        (0, 3, 3),  # the leader's epoch 0 ends earlier
        (0, 5, 5),
        (0, 8, 5),  # the leader's epoch 0 ends later, at offsets where the follower already has epoch 2
        (3, 20, 9),
    ],
)
def test_truncation_ends_at_the_common_prefix(epoch: int, end: int, point: int) -> None:
    assert truncation_point(end_offset_lookup(LOG), 9, epoch, end) == point  # type: ignore[arg-type]


@pytest.mark.parametrize(("end", "point"), [(4, 4), (6, 6), (12, 9), (0, 0), (-1, 0)])
def test_without_a_common_epoch_the_log_is_truncated_to_the_leaders_end_offset(end: int, point: int) -> None:
    """All epochs of the follower are newer than the leader's, or the follower has none."""
    assert truncation_point(end_offset_lookup({4: 9}), 9, 1, end) == point  # type: ignore[arg-type]
    assert truncation_point(end_offset_lookup({}), 9, 1, end) == point  # type: ignore[arg-type]


Log = tuple[int, ...]
"""The leader epoch of each record."""


def cache(log: Log) -> EpochCache:
    out = EpochCache()
    for offset, epoch in enumerate(log):
        out.assign(epoch, offset)
    out.log_end = len(log)
    return out


def truncate_follower(follower: Log, epoch: int, end_offset: int) -> int:
    return truncation_point(cache(follower).end_offset_for, len(follower), epoch, end_offset)


def test_a_common_epoch_truncates_to_the_end_offset_of_the_leader_within_the_log() -> None:
    assert truncate_follower((1, 1, 1, 1), 1, 2) == 2
    assert truncate_follower((1, 1), 1, 5) == 2, "never beyond the log"


def test_an_unknown_leader_epoch_truncates_to_the_end_of_the_largest_smaller_epoch() -> None:
    """After it only epochs follow that the leader does not have."""
    assert truncate_follower((1, 3, 3, 3, 3), 2, 4) == 1


def test_a_leader_without_epochs_truncates_everything() -> None:
    assert truncate_follower((1, 1), -1, -1) == 0


def test_an_empty_log_without_an_epoch_is_not_truncated() -> None:
    assert truncate_follower((), 3, 5) == 0


def logs(epochs: range, length: int) -> Iterator[Log]:
    for n in range(length + 1):
        yield from combinations_with_replacement(epochs, n)


def common_prefix_length(one: Log, other: Log) -> int:
    """An epoch has one leader, so the same epoch at the same offset is the same record."""
    return next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))


def test_for_any_two_logs_the_follower_keeps_exactly_the_common_prefix() -> None:
    """Histories that replication permits: a replica with a record of an epoch has all earlier records of that epoch's leader."""
    pairs = 0
    for leader in logs(range(1, 5), 4):
        for follower in logs(range(1, 5), 4):
            both = set(leader) & set(follower)
            if any(leader[: leader.index(e) + 1] != follower[: follower.index(e) + 1] for e in both):
                continue
            kept, requested = follower, 0
            while kept:
                epoch, end = cache(leader).end_offset_for(kept[-1])
                if epoch == kept[-1] and end >= len(kept):
                    break
                point = truncate_follower(kept, epoch, end)
                assert common_prefix_length(leader, follower) <= point < len(kept), (leader, follower, kept, point)
                kept, requested = kept[:point], requested + 1
                assert requested <= len(follower)
            assert kept == leader[: len(kept)] and len(kept) == common_prefix_length(leader, follower), (
                leader,
                follower,
            )
            pairs += 1
    assert pairs > 500
