"""Earlier numbers of partitions of a topic."""

from __future__ import annotations

import pytest

from controlplane.models import Topic
from controlplane.selectors.topic_growth import earlier_partition_counts
from controlplane.services import topics

pytestmark = pytest.mark.django_db


def test_each_addition_of_partitions_is_known_until_the_topic_is_deleted() -> None:
    topics.create_topic("orders", partitions=2, actor="alice")
    assert earlier_partition_counts("orders") == []
    topics.alter_topic("orders", partitions=6, actor="alice")
    topics.alter_topic("orders", set_configs={"retention.ms": "60000"}, actor="alice")
    topics.alter_topic("orders", partitions=9, actor="alice")
    assert earlier_partition_counts("orders") == [6, 2]
    Topic.objects.filter(name="orders").delete()
    assert earlier_partition_counts("orders") == []
    topics.create_topic("orders", partitions=12, actor="alice")
    assert earlier_partition_counts("orders") == [], "additions to the deleted topic"
