"""Dynamic broker settings: values that a broker would reject are rejected, and a change is applied only as it was reviewed."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import AccessEntry, Broker, Change
from controlplane.services import broker_configs, brokers
from controlplane.services.broker_configs import CLUSTER_WIDE
from controlplane.services.common import Rejected
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_brokers() -> World:
    return World(brokers=2)


def stored_configs(broker_id: int) -> Any:
    return AccessEntry.objects.get(kind="broker", key=str(broker_id)).value


def test_a_setting_is_set_for_one_broker_and_for_all_and_removed() -> None:
    broker_configs.alter_configs(1, {"max.connections": "500"}, actor="op", comment="leak")
    broker_configs.alter_configs(CLUSTER_WIDE, {"log.retention.ms": "60000"}, actor="op")
    assert (stored_configs(1), stored_configs(CLUSTER_WIDE)) == (
        {"max.connections": "500"},
        {"log.retention.ms": "60000"},
    )
    (change,) = broker_configs.preview_change(1, {"max.connections": None})
    assert (change.now, change.new) == ("500", None)
    broker_configs.alter_configs(1, {"max.connections": None}, actor="op")
    assert stored_configs(1) == {}
    rows = [(c.verb, c.object_kind, c.object_name, c.before, c.after) for c in Change.objects.order_by("id")]
    assert rows == [
        ("broker.configs", "broker", "1", None, {"max.connections": "500"}),
        ("broker.configs", "broker", "all brokers", None, {"log.retention.ms": "60000"}),
        ("broker.configs", "broker", "1", {"max.connections": "500"}, {}),
    ]


def test_settings_that_clients_set_stay() -> None:
    Broker.objects.filter(pk=1).update(
        configs={"max.connections": "7", "leader.replication.throttled.rate": "5"}, config_generation=4
    )
    broker_configs.alter_configs(1, {"max.connections.per.ip": "3"}, actor="op")
    row = AccessEntry.objects.get(kind="broker", key="1")
    assert row.value == {"max.connections": "7", "max.connections.per.ip": "3"} and row.generation == 5


@pytest.mark.parametrize(
    ("broker_id", "configs", "field"),
    [
        (1, {}, "configs"),
        (9, {"max.connections": "5"}, "broker_id"),
        (1, {"nonsense": "5"}, "configs.nonsense"),
        (1, {"max.connections": "many"}, "configs.max.connections"),
        (1, {"max.connections": None}, "configs.max.connections"),
        (1, {"log.dirs": "/x"}, "configs.log.dirs"),
        (1, {"log.retention.ms": "5"}, "configs.log.retention.ms"),
        (CLUSTER_WIDE, {"ssl.keystore.location": "/x"}, "configs.ssl.keystore.location"),
        (1, {"cordoned.log.dirs": "*"}, "configs.cordoned.log.dirs"),
        (1, {"leader.eligible": "false"}, "configs.leader.eligible"),
    ],
)
def test_a_value_that_a_broker_would_reject_is_rejected_and_recorded(broker_id: int, configs: Any, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        broker_configs.alter_configs(broker_id, configs, actor="op")
    assert rejection.value.field == field and not AccessEntry.objects.exists()
    (change,) = Change.objects.all()
    assert (change.verb, change.outcome, change.after) == ("broker.configs", "refused", configs)


def test_a_change_since_the_review_is_rejected() -> None:
    reviewed = {c.name: c.now for c in broker_configs.preview_change(1, {"max.connections": "5"})}
    broker_configs.alter_configs(1, {"max.connections": "6"}, actor="another")
    with pytest.raises(Rejected, match="Review it again"):
        broker_configs.alter_configs(1, {"max.connections": "5"}, actor="op", reviewed=reviewed)
    assert stored_configs(1) == {"max.connections": "6"}
    with pytest.raises(Rejected, match="already"):
        broker_configs.preview_change(1, {"max.connections": "6"})


def test_a_cordon_stays_when_another_setting_changes() -> None:
    brokers.cordon(1, actor="op")
    broker_configs.alter_configs(1, {"max.connections": "5"}, actor="op")
    assert stored_configs(1) == {"cordoned.log.dirs": "*", "max.connections": "5"}
