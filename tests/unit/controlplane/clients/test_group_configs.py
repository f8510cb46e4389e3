"""The configs of a group that a real handler reports, and changes that it checks."""

from __future__ import annotations

import pytest

from controlplane.clients.connection import Declined
from controlplane.clients.group_configs import check_change, describe_group
from controlplane.domain.group_config import GroupConfigKind
from tests.unit.controlplane.config_broker import ConfigBroker

LOCK = "share.record.lock.duration.ms"


def test_each_config_has_its_value_its_default_and_its_kind() -> None:
    found = {r.name: r for r in describe_group(ConfigBroker({"g": {LOCK: "20000"}}), "g")}  # type: ignore[arg-type]
    lock, session = found[LOCK], found["consumer.session.timeout.ms"]
    assert (lock.value, lock.own, lock.default, lock.kind) == ("20000", True, "30000", GroupConfigKind.SHARE)
    assert (session.value, session.own, session.kind) == ("45000", False, GroupConfigKind.CONSUMER)
    assert all(r.doc for r in found.values()) and [*found] == sorted(found)


def test_a_group_that_does_not_exist_has_the_defaults() -> None:
    assert not any(r.own for r in describe_group(ConfigBroker(), "none"))  # type: ignore[arg-type]


def test_a_broker_checks_a_change_and_changes_nothing() -> None:
    broker = ConfigBroker({"g": {LOCK: "20000"}})
    check_change(broker, "g", {LOCK: None, "share.isolation.level": "read_committed"})  # type: ignore[arg-type]
    assert len(broker.checked) == 1 and broker.image.access_to("group", "g")[1] == {LOCK: "20000"}
    with pytest.raises(Declined, match="15000 and 60000"):
        check_change(broker, "g", {LOCK: "5"})  # type: ignore[arg-type]
    with pytest.raises(Declined, match="unknown group setting"):
        check_change(broker, "g", {"share.nonsense": "5"})  # type: ignore[arg-type]
