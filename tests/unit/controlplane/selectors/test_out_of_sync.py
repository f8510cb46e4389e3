"""Why a replica is out of sync, from the leader's counts."""

from __future__ import annotations

import pytest

from controlplane.clients.broker_samples import BrokerSample
from controlplane.models import ObservedPartition, ReplicaDamageReport
from controlplane.monitoring.samples import MetricsCache
from controlplane.selectors import partitions
from tests.unit.controlplane.selectors.test_partitions import F0
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def copy_on_3() -> partitions.ReplicaOf:
    row = partitions.partition_row("flights", 0)
    assert row is not None and [r.out_of_sync_reason for r in row.replica_rows[:2]] == ["", ""]
    return row.replica_rows[2]


@pytest.mark.parametrize(
    ("reported", "words", "end", "behind"),
    [
        ((940, -1), "The replica lacks 60 records: check whether the number decreases", 940, 60),
        ((-1, -1), "The replica has sent no fetch request to broker 1", None, None),
        ((1000, 700), "its log start offset 700 is above the leader's 200", 1000, 0),
        ((1000, -1), "it has stopped fetching", 1000, 0),
    ],
)
def test_the_position_of_a_replica_is_the_one_that_the_leader_reports(
    world_with_lagging_replica: World, reported: tuple[int, int], words: str, end: int | None, behind: int | None
) -> None:
    """A disconnected replica reports no lag, because it knows only the last high watermark that it received."""
    metrics = MetricsCache()
    leader = BrokerSample(1, 5, {F0: (200, 1000)}, {F0: (700, 0)}, lagging={F0: {3: reported}})
    follower = BrokerSample(3, 5, {}, {F0: (700, 0)}, lagging={F0: {2: (1, 1)}})
    metrics.write(
        metrics.apply([leader, follower], {}, world_with_lagging_replica.image, 5),
        world_with_lagging_replica.projection,
        world_with_lagging_replica.image,
    )
    assert ObservedPartition.objects.get().lagging == {"3": list(reported)}, "a broker that does not lead has no say"
    copy = copy_on_3()
    assert words in copy.out_of_sync_reason and (copy.end_offset, copy.lag_records) == (end, behind)
    again = metrics.apply([leader], {}, world_with_lagging_replica.image, 6)
    assert not again.lagging, "nothing is written where nothing changed"
    whole = BrokerSample(1, 7, {F0: (200, 1000)}, {F0: (700, 0)})
    metrics.write(
        metrics.apply([whole], {}, world_with_lagging_replica.image, 7),
        world_with_lagging_replica.projection,
        world_with_lagging_replica.image,
    )
    assert ObservedPartition.objects.get().lagging == {}


def test_the_closest_replica_is_listed_first(world_with_lagging_replica: World) -> None:
    assert copy_on_3().out_of_sync_reason == "The leader has not reported the replica's log end offset yet."
    ObservedPartition.objects.update(lagging={"3": [940, -1]}, end_offset=1000)
    world_with_lagging_replica.put("flights", 0, adding=(3,))
    assert copy_on_3().out_of_sync_reason.startswith(
        "A move is copying the replica to this broker. The replica lacks 60 records"
    )
    world_with_lagging_replica.put("flights", 0, adding=())
    topic_id = world_with_lagging_replica.image.topic_ids["flights"]
    ReplicaDamageReport.objects.create(
        topic_id=topic_id, topic_name="flights", partition=0, broker_id=3, kind="disk", detail="/b: EIO"
    )
    assert copy_on_3().out_of_sync_reason == "The log directory has failed: /b: EIO."
    world_with_lagging_replica.down(3)
    assert copy_on_3().out_of_sync_reason == "The broker is down."
