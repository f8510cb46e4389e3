"""Rows of stored plans: the difference of two plans, partition by partition."""

from __future__ import annotations

import pytest

from controlplane.selectors import plans as selectors
from tests.unit.controlplane.services.test_plans import save
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def flights(world: World) -> World:
    world.topic("flights", *[(1, 2)] * 3, (2, 3))
    return world


def test_two_plans_are_compared_partition_by_partition(flights: World) -> None:
    drain = save()
    other = save(
        {
            "kind": "partitions",
            "partitions": [
                {"topic": "flights", "partition": 0, "replicas": [3, 2]},
                {"topic": "flights", "partition": 1, "replicas": [2, 3]},
                {"topic": "flights", "partition": 3, "replicas": [1, 3]},
            ],
        }
    )
    found = selectors.difference(drain.pk, other.pk)
    assert (found.same, found.different, found.stale) == (1, 3, 0)
    assert [(r.partition, r.replicas, r.other) for r in found.rows] == [
        (1, [3, 2], [2, 3]),
        (2, [3, 2], None),
        (3, None, [1, 3]),
    ]
    back = selectors.difference(other.pk, drain.pk)
    assert (back.same, back.different) == (1, 3)
    assert selectors.difference(drain.pk, drain.pk).different == 0
