"""A proposal that frees a nearly full disk."""

from __future__ import annotations

import pytest

from brokerd.cluster.cordons import ALL_DIRECTORIES, CORDONED
from controlplane.models import Broker, ObservedReplica
from controlplane.selectors.disk_relief import REPLICAS_MAX, relief
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
GB = 10**9


def sizes(topic: str, broker: int, *of: int) -> None:
    for index, size in enumerate(of):
        ObservedReplica.objects.filter(topic_name=topic, broker_id=broker, index=index).update(size_bytes=size)


def disk(broker: int, free: int | None, **fields: object) -> None:
    Broker.objects.filter(pk=broker).update(total_bytes=100 * GB, free_bytes=free, **fields)


@pytest.fixture
def ledger(world: World) -> None:
    """Broker 2 is nearly full."""
    world.topic("ledger", (1, 2), (2, 1), (1, 2), (2, 1))
    sizes("ledger", 2, 5 * GB, 30 * GB, 20 * GB, 1 * GB)
    disk(1, 60 * GB)
    disk(2, 2 * GB)
    disk(3, 60 * GB)


def test_the_largest_replicas_move_until_a_fifth_of_the_disk_is_free(ledger: None) -> None:
    assert relief("2", "ledger") == ["1=3,1"]
    Broker.objects.filter(pk=2).update(total_bytes=200 * GB)
    assert relief("2", "ledger") == ["1=3,1", "0=1,3", "3=3,1"], "the second largest no longer fits"


def test_no_broker_without_room_and_no_cordoned_or_dead_one(ledger: None) -> None:
    disk(3, 10 * GB)
    assert relief("2", "ledger") == ["0=1,3", "3=3,1"], "what fits, and broker 1 has the other replicas"
    disk(3, None)
    assert relief("2", "ledger") == ["1=3,1"], "unknown space counts as space"
    Broker.objects.filter(pk=3).update(configs={CORDONED: ALL_DIRECTORIES})
    assert relief("2", "ledger") == []
    Broker.objects.filter(pk=3).update(configs={}, alive=False)
    assert relief("2", "ledger") == []


def test_racks_and_failure_domains_of_the_other_replicas_are_kept_apart(ledger: None) -> None:
    Broker.objects.filter(pk__in=(1, 3)).update(rack="a")
    Broker.objects.filter(pk=2).update(rack="b")
    assert relief("2", "ledger") == [], "both replicas would be in rack a"
    Broker.objects.filter(pk=3).update(rack="b")
    assert relief("2", "ledger") == ["1=3,1"]
    Broker.objects.filter(pk__in=(1, 3)).update(failure_domain="host-1")
    assert relief("2", "ledger") == []


def test_a_proposal_can_be_read(world: World) -> None:
    world.topic("many", *[(2,)] * 20)
    sizes("many", 2, *[10] * 20)
    disk(2, 0)
    disk(1, GB)
    assert len(relief("2", "many")) == REPLICAS_MAX
    assert relief("9", "many") == relief("2", "absent") == []
