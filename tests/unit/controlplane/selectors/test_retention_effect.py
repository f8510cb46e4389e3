"""Records that a change of a topic's configs deletes."""

from __future__ import annotations

import pytest

from controlplane.models import ObservedPartition
from controlplane.selectors.retention_effect import RetentionEffect, deletion
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
NOW = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "604800000"}


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ({"retention.bytes": "100"}, RetentionEffect(2, 700, None)),
        ({"retention.bytes": "900"}, None),
        ({"retention.bytes": "0", "retention.ms": "1000"}, RetentionEffect(3, 950, 1000)),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "604800000"}, None),
        ({"cleanup.policy": "compact", "retention.ms": "1"}, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, RetentionEffect(0, 0, 1)),
        ({"min.insync.replicas": "2"}, None),
    ],
)
def test_only_a_stricter_limit_deletes(world: World, new: dict[str, str], found: RetentionEffect | None) -> None:
    world.topic("orders", (1,), (2,), (3,))
    for index, size in enumerate((50, 300, 600)):
        ObservedPartition.objects.filter(topic__name="orders", index=index).update(size_bytes=size)
    assert deletion("orders", NOW, new) == found


def test_a_compacted_topic_that_is_deleted_from_now_on_loses_old_records(world: World) -> None:
    world.topic("orders", (1,))
    compacted = {**NOW, "cleanup.policy": "compact"}
    assert deletion("orders", compacted, {"cleanup.policy": "delete"}) == RetentionEffect(0, 0, 604800000)
    assert deletion("orders", compacted, {"retention.ms": "1"}) is None
