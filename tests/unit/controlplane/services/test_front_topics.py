"""The front topics of delayed and half messages follow their topic: they are created, grow and are deleted with it, and nobody separates them."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import Topic
from controlplane.services import Rejected, topics

pytestmark = pytest.mark.django_db
ENABLED = {"weir.delay.enable": "true", "min.insync.replicas": "2"}
SEGMENTS = {"segment.bytes": "16777216"}
"""A new leader reads the active segment record by record."""


def front() -> Topic | None:
    return Topic.objects.filter(name="orders.delay", deleted_at__isnull=True).first()


def create(**configs: Any) -> Topic:
    return topics.create_topic("orders", partitions=3, replication_factor=3, configs=configs, actor="ada")


def test_a_topic_with_delayed_messages_gets_a_front_topic_of_its_size() -> None:
    create(**ENABLED)
    found = front()
    assert found is not None and (found.partitions, found.replication_factor) == (3, 3)
    assert found.configs == {"min.insync.replicas": "2", "weir.delay.topic": "orders", **SEGMENTS}


def test_the_config_can_be_set_later_and_the_front_topic_follows() -> None:
    create()
    assert front() is None
    topics.alter_topic("orders", set_configs=ENABLED, actor="ada")
    topics.alter_topic("orders", partitions=6, set_configs={"max.message.bytes": "5000"}, actor="ada")
    topics.alter_topic("orders", delete_configs=["min.insync.replicas"], actor="ada")
    found = front()
    assert found is not None and found.partitions == 6
    assert found.configs == {"max.message.bytes": "5000", "weir.delay.topic": "orders", **SEGMENTS}


def test_the_front_topic_stays_without_the_config_and_is_deleted_with_its_topic() -> None:
    create(**ENABLED)
    topics.alter_topic("orders", set_configs={"weir.delay.enable": "false"}, actor="ada")
    assert front() is not None, "records may wait in it"
    topics.delete_topic("orders", actor="ada")
    assert front() is None


def test_an_ordinary_topic_of_that_name_is_not_taken_over() -> None:
    topics.create_topic("orders.delay", partitions=1, replication_factor=1, actor="ada")
    with pytest.raises(Rejected, match="is not a front topic"):
        create(**ENABLED)
    create()
    topics.delete_topic("orders", actor="ada")
    assert front() is not None


def test_a_front_topic_cannot_be_separated_from_its_topic() -> None:
    create(**ENABLED)
    with pytest.raises(Rejected, match="read-only"):
        topics.create_topic("other", configs={"weir.delay.topic": "orders"}, replication_factor=1, actor="ada")
    with pytest.raises(Rejected, match="read-only"):
        topics.alter_topic("orders.delay", delete_configs=["weir.delay.topic"], actor="ada")
    with pytest.raises(Rejected, match="as many partitions"):
        topics.alter_topic("orders.delay", partitions=9, actor="ada")
    with pytest.raises(Rejected, match="is a front topic"):
        topics.alter_topic("orders.delay", set_configs={"weir.delay.enable": "true"}, actor="ada")


HALF = {"weir.half.enable": "true"}
HALF_FRONTS = ("orders.half", "orders.half.check", "orders.half.expired")


def half_fronts() -> dict[str, Topic]:
    found = Topic.objects.filter(name__startswith="orders.half", deleted_at__isnull=True)
    return {row.name: row for row in found}


def test_a_topic_with_half_messages_gets_three_front_topics_that_follow_it() -> None:
    create(**HALF)
    topics.alter_topic("orders", partitions=6, set_configs={"max.message.bytes": "5000"}, actor="ada")
    found = half_fronts()
    assert tuple(sorted(found)) == HALF_FRONTS
    assert {row.partitions for row in found.values()} == {6}
    assert found["orders.half"].configs == {"max.message.bytes": "5000", "weir.half.topic": "orders"}
    assert found["orders.half.expired"].configs == {"max.message.bytes": "5000", "weir.half.source": "orders"}
    assert found["orders.half.check"].configs["retention.ms"] == "3600000"
    topics.delete_topic("orders", actor="ada")
    assert not half_fronts()


def test_the_retention_of_a_follower_may_be_changed_and_stays() -> None:
    create(**HALF)
    for name in HALF_FRONTS[1:]:
        topics.alter_topic(name, set_configs={"retention.ms": "1234"}, actor="ada")
    topics.alter_topic("orders", partitions=6, actor="ada")
    assert {half_fronts()[name].configs["retention.ms"] for name in HALF_FRONTS[1:]} == {"1234"}


@pytest.mark.parametrize("name", HALF_FRONTS)
def test_half_fronts_are_not_separated_and_ordinary_topics_not_taken_over(name: str) -> None:
    topics.create_topic(name, partitions=1, replication_factor=1, actor="ada")
    with pytest.raises(Rejected, match="is not a front topic"):
        create(**HALF)
    topics.delete_topic(name, actor="ada")
    create(**HALF)
    with pytest.raises(Rejected, match="as many partitions"):
        topics.alter_topic(name, partitions=9, actor="ada")
    with pytest.raises(Rejected, match="is a front topic"):
        topics.alter_topic(name, set_configs=HALF, actor="ada")
    with pytest.raises(Rejected, match="read-only"):
        topics.alter_topic(name, set_configs={"weir.half.source": "x", "weir.half.topic": "x"}, actor="ada")


RETRY = {"weir.retry.enable": "true"}
RETRY_FRONTS = ["orders.dead", "orders.retry", "orders.retry.delay"]


def retry_fronts() -> dict[str, Topic]:
    found = Topic.objects.filter(name__startswith="orders.", deleted_at__isnull=True).order_by("name")
    return {row.name: row for row in found}


def test_a_topic_with_retries_gets_topics_for_them_and_for_dead_letters() -> None:
    create(**RETRY)
    topics.alter_topic("orders", partitions=6, set_configs={"max.message.bytes": "5000"}, actor="ada")
    found = retry_fronts()
    assert list(found) == RETRY_FRONTS and {row.partitions for row in found.values()} == {6}
    assert found["orders.dead"].configs == {"max.message.bytes": "5000", "weir.retry.source": "orders"}
    assert found["orders.retry"].configs["weir.delay.enable"] == "true"
    assert found["orders.retry.delay"].configs == {
        "max.message.bytes": "5000",
        "weir.delay.topic": "orders.retry",
        **SEGMENTS,
    }
    topics.alter_topic("orders.dead", set_configs={"retention.ms": "-1"}, actor="ada")
    topics.alter_topic("orders.retry", set_configs={"weir.delay.enable": "true", "retention.ms": "9"}, actor="ada")
    with pytest.raises(Rejected, match="is a front topic"):
        topics.alter_topic("orders.dead", set_configs=RETRY, actor="ada")
    topics.delete_topic("orders", actor="ada")
    assert not retry_fronts()
