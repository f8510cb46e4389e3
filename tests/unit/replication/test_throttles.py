"""Replication throttles: the token bucket, the configs in the metadata log, and a throttled follower."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.configs import LONG_MAX
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerConfigChanged, MetadataRecord, TopicConfigChanged, TopicCreated, TopicDeleted
from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.fetch_client import (
    AppendFetched,
    FetchClient,
    FetchResponseReceived,
    PartitionResponse,
    Position,
    Ready,
    SendFetch,
    WakeAt,
)
from brokerd.replication.throttles import BURST_MS, Bucket, Throttles

T = UUID(int=5)
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


@given(
    st.integers(1_000, 10**8), st.lists(st.tuples(st.integers(0, 900), st.integers(1, 2**20)), min_size=1, max_size=80)
)
def test_the_bytes_in_any_interval_are_limited_by_rate_burst_and_one_batch(
    rate: int, batches: list[tuple[int, int]]
) -> None:
    now, spent = 0, 0
    bucket = Bucket(rate, now)
    for wait, batch in batches:
        now += wait
        if bucket.available(now):
            bucket.spend(batch, now)
            spent += batch
    assert spent <= rate * (now + BURST_MS) / 1_000 + max(b for _, b in batches)


def test_an_empty_bucket_returns_the_time_of_its_next_capacity() -> None:
    bucket = Bucket(1_000, 0)
    bucket.spend(3_000, 10_000)  # the burst of one second was used
    assert bucket.available(10_000) == 0
    ready = bucket.ready_ms(10_000)
    assert ready == pytest.approx(12_000, abs=2)
    assert bucket.available(ready - 5) == 0 < bucket.available(ready)


def test_a_changed_rate_applies_immediately() -> None:
    bucket = Bucket(1_000, 0)
    bucket.spend(1_000_000, 0)
    bucket.set_rate(500_000, 0)
    assert bucket.available(100) == 50_000


class Log:
    """The configs for broker 1 in the metadata log."""

    def __init__(self) -> None:
        self.image, self.throttles = Image(), Throttles(1, self.rate)

    def rate(self, name: str) -> int:
        """Precedence as in `config`: the broker's own value before the cluster-wide default."""
        own, of_all = (self.image.broker_configs.get(b, (0, {}))[1] for b in (1, -1))
        return int(own.get(name, of_all.get(name, LONG_MAX)))

    def apply_records(self, *records: MetadataRecord) -> bool:
        for r in records:
            self.image.apply(r)
        return self.throttles.apply(self.image, records, 0)

    def throttled_sides(self, partition: int) -> tuple[bool, bool]:
        tp = TopicPartition(T, partition)
        return self.throttles.leader_bucket(tp) is not None, self.throttles.follower_bucket(tp) is not None


def test_a_throttle_is_a_broker_rate_and_a_topic_replica_list() -> None:
    log = Log()
    log.apply_records(TopicCreated(T, "t", 1, {LEADERS: "0:1,0:2", FOLLOWERS: "1:1,0:2"}, 3))
    assert (log.throttles.active, log.throttled_sides(0)) == (False, (False, False))
    assert log.apply_records(BrokerConfigChanged(1, 1, {LEADER_RATE: "5000", FOLLOWER_RATE: "6000"}))
    assert log.throttles.active
    assert [log.throttled_sides(i) for i in range(3)] == [(True, False), (False, True), (False, False)]
    assert log.apply_records(TopicConfigChanged(T, 2, {LEADERS: "*"}))
    assert [log.throttled_sides(i) for i in range(3)] == [(True, False)] * 3
    assert log.apply_records(BrokerConfigChanged(1, 2, {}))
    assert not log.throttles.active
    log.apply_records(TopicDeleted(T, "t", 3))
    log.apply_records(BrokerConfigChanged(-1, 1, {LEADER_RATE: "5000"}))
    assert not log.throttles.active


def test_the_cluster_wide_rate_applies_to_a_broker_without_its_own() -> None:
    log = Log()
    log.apply_records(TopicCreated(T, "t", 1, {LEADERS: "*"}, 1), BrokerConfigChanged(-1, 1, {LEADER_RATE: "5000"}))
    bucket = log.throttles.leader_bucket(TopicPartition(T, 0))
    assert bucket is not None and bucket.rate == 5_000
    log.apply_records(BrokerConfigChanged(1, 1, {LEADER_RATE: "7000"}), BrokerConfigChanged(2, 1, {LEADER_RATE: "1"}))
    assert bucket.rate == 7_000


def test_an_image_gives_the_same_throttles_as_its_records() -> None:
    log = Log()
    log.apply_records(
        TopicCreated(T, "t", 1, {FOLLOWERS: "0:1"}, 1), BrokerConfigChanged(1, 1, {FOLLOWER_RATE: "5000"})
    )
    reloaded = Throttles(1, log.rate)
    reloaded.load(log.image, 0)
    assert reloaded.follower_bucket(TopicPartition(T, 0)) is not None
    log.image.topics.clear()
    reloaded.load(log.image, 0)
    assert not reloaded.active


# -- the follower ------------------------------------------------------------------------------------------------------------
A, B = TopicPartition(T, 0), TopicPartition(T, 1)


class Follower:
    def __init__(self) -> None:
        self.ends = {A: 0, B: 0}
        self.core = FetchClient(lambda tp: Position(self.ends[tp], 0, 0))
        for tp in self.ends:
            self.core.follow(tp, 1)

    def fetch(self, now_ms: int) -> SendFetch | WakeAt:
        (effect,) = self.core.handle(Ready(), Now(now_ms, 0))
        assert isinstance(effect, SendFetch | WakeAt)
        return effect

    def effects_of(self, now_ms: int, *tps: TopicPartition) -> None:
        responses = tuple(PartitionResponse(tp, 0, 0, 0, b"x") for tp in tps)
        for effect in self.core.handle(FetchResponseReceived(responses, session_id=9), Now(now_ms, 0)):
            assert isinstance(effect, AppendFetched)
            self.ends[effect.tp] += 1


def test_a_throttled_partition_leaves_the_fetch_session_and_the_others_continue() -> None:
    follower = Follower()
    first = follower.fetch(0)
    assert isinstance(first, SendFetch) and {f.tp for f in first.partitions} == {A, B}
    follower.effects_of(10, A, B)
    follower.core.throttle(A, 500)
    second = follower.fetch(10)
    assert isinstance(second, SendFetch)
    assert ([f.tp for f in second.partitions], second.forgotten) == ([B], (A,))
    follower.effects_of(500, B)
    third = follower.fetch(500)
    assert isinstance(third, SendFetch)
    assert {f.tp: f.position.fetch_offset for f in third.partitions} == {A: 1, B: 2}


def test_a_fetcher_with_only_throttled_partitions_continues_when_the_quota_allows() -> None:
    follower = Follower()
    follower.core.unfollow(B)
    follower.fetch(0)
    follower.effects_of(10, A)
    follower.core.throttle(A, 500)
    assert follower.fetch(10) == WakeAt(500)
    again = follower.fetch(500)
    assert isinstance(again, SendFetch) and [f.position.fetch_offset for f in again.partitions] == [1]


def test_a_removed_throttle_applies_immediately_and_a_backoff_stays() -> None:
    follower = Follower()
    follower.core.unfollow(B)
    follower.fetch(0)
    follower.effects_of(10, A)
    follower.core.throttle(A, 60_000)
    assert follower.fetch(10) == WakeAt(60_000)
    follower.core.lift_throttles()
    assert isinstance(follower.fetch(11), SendFetch)
    follower.effects_of(12, A)
    follower.core.append_rejected(A, Now(12, 0))
    follower.core.throttle(A, 60_000)
    follower.core.lift_throttles()
    assert isinstance(follower.fetch(13), WakeAt)
