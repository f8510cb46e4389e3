"""The page of a partition shows why a replica is out of sync, from the leader's counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from brokerd.cluster.model import NO_LEADER, REPLACED
from console import cells
from console.fragments import chips
from controlplane.models import Broker, ObservedPartition, ObservedReplica, ObservedTopic
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import Difference
from controlplane.monitoring.publisher import LivePublisher
from controlplane.monitoring.samples import MetricsCache
from controlplane.selectors import partitions, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0 = ("flights", 0)


def test_a_partition_without_a_live_replica_shows_its_unavailable_records(world_with_lagging_replica: World) -> None:
    world_with_lagging_replica.put("flights", 0, handover_offset=600, handover_epoch=1, history_replicas=(2, 3))
    assert (row := partitions.partition_row("flights", 0)) is not None and row.holders_down == []
    world_with_lagging_replica.down(3)
    assert (row := partitions.partition_row("flights", 0)) is not None and row.holders_down == [3]


def test_the_first_problems_equal_those_of_the_sorted_list(world: World) -> None:
    for name in ("b", "a", "c"):
        world.topic(name, (1, 2), (2, 3), (3, 1))
    assert partitions.in_trouble(3).rows == []
    for name, index in (("c", 0), ("b", 2), ("b", 0)):
        world.put(name, index, isr=(world.state(name, index).leader,))
    world.offline("a", 1)
    first = partitions.in_trouble(3)
    sorted_list = partitions.partition_list(state="problems", sort="topic", per_page=3)
    assert [(p.topic, p.index) for p in first.rows] == [("a", 1), ("b", 0), ("b", 2)]
    assert [(p.topic, p.index) for p in sorted_list.rows] == [("a", 1), ("b", 0), ("b", 2)]
    assert (first.total, first.pages) == (4, 2)


def test_the_worst_partitions_come_first_and_users_topics_before_internal_ones(world: World) -> None:
    """With a dead broker, the list showed eight `__consumer_offsets` partitions without a replica and none of the six partitions without a leader."""
    world.topic("__consumer_offsets", *[(1, 2)] * 9)
    world.topic("zebras", (1, 2), (2, 1))
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    for index in range(9):
        world.put("__consumer_offsets", index, isr=(1,))
    world.put("zebras", 0, isr=(1,))
    world.put("ledger", 0, isr=(1,))
    world.offline("zebras", 1)
    world.offline("__consumer_offsets", 7)
    ObservedTopic.objects.filter(name="__consumer_offsets").update(internal=True)
    found = partitions.in_trouble(5)
    assert [(p.topic, p.index, p.state) for p in found.rows] == [
        ("zebras", 1, "offline"),
        ("__consumer_offsets", 7, "offline"),
        ("ledger", 0, "under_min_isr"),
        ("zebras", 0, "under_replicated"),
        ("__consumer_offsets", 0, "under_replicated"),
    ]
    assert found.total == 12


def test_a_replica_of_a_broker_that_is_down_is_offline_on_every_page(world: World) -> None:
    """The page showed the only replica of a dead broker as `follower`, grey and not struck through."""
    world.topic("flights", (2,), (1, 2))
    world.down(2)
    world.put("flights", 0, leader=NO_LEADER)
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.down == [2] and row.state == "offline"
    assert [(r.broker_id, r.alive) for r in row.replica_rows] == [(2, False)]
    assert 'class="b b2 out down" title="broker 2, down"' in chips(row.replicas, row.isr, row.leader, down=row.down)
    assert topics.topic_list().rows[0].health == "offline"
    heard: list[Any] = []
    hub = Hub()
    hub.listen(heard.append)
    everything = Difference(partitions={i: list(t.partitions) for i, t in world.image.topics.items()})
    LivePublisher(hub).image(world.image, everything, MetricsCache())
    cell = cells.page_update(heard[0], {"partition:flights:0", "partition:flights:1"}).cells
    assert "down" in cell["partition:flights:0", "replicas"] and "offline" in cell["partition:flights:0", "state"]
    assert cell["partition:flights:1", "replicas"].count("down") == 2, "its class and its title"


def test_a_partition_with_majority_acknowledgements_names_the_brokers_that_a_vote_needs(world: World) -> None:
    world.topic("payments", (1, 2, 3), configs={"weir.majority.acks.enable": "true"})
    world.topic("plain", (1, 2, 3))
    world.put("payments", 0, voters=(1, 2, 3), isr=(2,), elr=(3,), leader=NO_LEADER)
    Broker.objects.filter(broker_id=3).update(alive=False)
    (payments,), (plain,) = (partitions.partition_list(name).rows for name in ("payments", "plain"))
    assert plain.majority is None
    assert payments.majority == partitions.MajorityVote(3, 2, 2, [2, 3], [3])
    assert payments.electable == [], "one live replica is not enough"


def test_the_voters_of_a_cancelled_reassignment_are_those_of_the_metadata_log(world: World) -> None:
    """A replica that is being removed after it had become a voter was counted as no voter: the page named too few brokers."""
    world.topic("payments", (1, 2, 3), configs={"weir.majority.acks.enable": "true"})
    world.put("payments", 0, replicas=(1, 2, 3, 4), adding=(4,), voters=(1, 2, 3, 4), leader=NO_LEADER, elr=(4,))
    row = partitions.partition_row("payments", 0)
    assert row is not None and row.majority == partitions.MajorityVote(4, 3, 2, [1, 2, 3, 4], [])


def test_a_partition_without_a_leader_names_the_replicas_of_which_one_leads_next(world: World) -> None:
    world.topic("flights", (1, 2, 3))
    found = []
    for changes in (
        {"isr": (1,), "elr": (2,)},
        {"isr": (), "elr": (), "last_isr": (3,)},
        {"isr": (), "elr": (), "last_isr": (3, REPLACED)},
        {"isr": (1, 2), "last_isr": (), "leader": 1},
    ):
        world.put("flights", 0, **{"leader": NO_LEADER, **changes})
        row = partitions.partition_row("flights", 0)
        assert row is not None
        found.append(row.electable)
    assert found == [[1, 2], [3], [], []]


def test_the_values_of_a_partition_are_as_old_as_the_last_response_of_its_leader(world: World) -> None:
    """An idle partition had "Last sample 6 min ago" although its leader responded each second. Without a leader the lag of each replica was 0, and 500
    records that only the dead leader had were lost in an unclean election."""
    world.topic("flights", (1, 2))
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.sample_age_s is None, "never sampled"
    now = timezone.now()
    ObservedPartition.objects.update(end_offset=9, start_offset=0, sampled_at=now - timedelta(minutes=6))
    ObservedReplica.objects.update(end_offset=9, lag_records=0)
    for broker_id, seconds in ((1, 40), (2, 2)):
        Broker.objects.filter(broker_id=broker_id).update(sampled_at=now - timedelta(seconds=seconds))
    row = partitions.partition_row("flights", 0)
    assert row is not None and 40 <= (row.sample_age_s or 0) < 60
    assert [r.lag_records for r in row.replica_rows] == [0, 0]
    world.put("flights", 0, isr=(1,), leader=NO_LEADER)
    row = partitions.partition_row("flights", 0)
    assert row is not None and 40 <= (row.sample_age_s or 0) < 60, "of broker 1, the last in-sync replica"
    assert [r.lag_records for r in row.replica_rows] == [None, None]


def test_the_lag_of_a_replica_that_the_leader_has_not_reported_is_unknown(world: World) -> None:
    """A page said "The leader has not reported the replica's log end offset yet." beside a lag of 0."""
    world.topic("flights", (1, 2))
    ObservedReplica.objects.update(end_offset=9, lag_records=0)
    world.put("flights", 0, isr=(1,))
    row = partitions.partition_row("flights", 0)
    assert row is not None and [r.lag_records for r in row.replica_rows] == [0, None]
    assert "has not reported" in str(row.replica_rows[1].out_of_sync_reason)
