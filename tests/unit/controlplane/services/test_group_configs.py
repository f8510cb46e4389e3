"""Configs of a group: a broker checks each change, and a change is applied only as it was reviewed."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import AccessEntry, Change
from controlplane.services import group_configs
from controlplane.services.common import Rejected
from controlplane.services.group_configs import alter_group_configs, preview_group_change
from tests.unit.controlplane.config_broker import ConfigBroker
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
LOCK, ORDER = "share.record.lock.duration.ms", "weir.share.key.order.enable"


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> ConfigBroker:
    World(brokers=2)
    return ConfigBroker().replace_connections(monkeypatch)


def stored_configs() -> Any:
    return AccessEntry.objects.get(kind="group", key="a/b").value


def test_configs_are_set_and_removed_and_others_stay() -> None:
    alter_group_configs("a/b", {LOCK: "20000", ORDER: "true"}, actor="op", comment="slow tasks")
    assert stored_configs() == {LOCK: "20000", ORDER: "true"}
    (change,) = preview_group_change("a/b", {LOCK: None})
    assert (change.name, change.now, change.new) == (LOCK, "20000", None)
    alter_group_configs("a/b", {LOCK: None}, actor="op")
    assert stored_configs() == {ORDER: "true"}
    alter_group_configs("a/b", {ORDER: None}, actor="op")
    assert stored_configs() is None, "a group without configs has no record"
    rows = [(c.verb, c.object_kind, c.object_name, c.outcome) for c in Change.objects.all()]
    assert rows == [("group.configs", "group", "a/b", "confirmed")] * 3


@pytest.mark.parametrize(
    ("configs", "field", "reason"),
    [
        ({}, "configs", "at least one config"),
        ({LOCK: "5"}, "configs", "15000 and 60000"),
        ({"share.nonsense": "5"}, "configs", "unknown group setting"),
        ({LOCK: None}, f"configs.{LOCK}", "no value of"),
    ],
)
def test_a_change_that_a_broker_would_reject_is_rejected_and_recorded(configs: Any, field: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason) as rejection:
        alter_group_configs("a/b", configs, actor="op")
    assert rejection.value.field == field and not AccessEntry.objects.exists()
    (change,) = Change.objects.all()
    assert (change.verb, change.outcome, change.after) == ("group.configs", "refused", configs)


def test_without_a_broker_that_answers_nothing_changes(broker: ConfigBroker) -> None:
    broker.silent = True
    with pytest.raises(Rejected, match="No broker checked the change: it is down"):
        alter_group_configs("a/b", {LOCK: "20000"}, actor="op")
    assert not AccessEntry.objects.exists()


def test_a_change_since_the_review_is_rejected() -> None:
    reviewed = {c.name: c.now for c in preview_group_change("a/b", {LOCK: "20000"})}
    alter_group_configs("a/b", {LOCK: "40000"}, actor="another")
    with pytest.raises(Rejected, match="Review it again"):
        alter_group_configs("a/b", {LOCK: "20000"}, actor="op", reviewed=reviewed)
    assert stored_configs() == {LOCK: "40000"}


def test_a_change_while_the_broker_checks_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value that another operator wrote between the check and the write was overwritten without a message."""
    check = group_configs._check

    def checked_late(group_id: str, configs: Any) -> None:
        monkeypatch.setattr(group_configs, "_check", check)
        alter_group_configs("a/b", {LOCK: "40000"}, actor="another")

    monkeypatch.setattr(group_configs, "_check", checked_late)
    with pytest.raises(Rejected, match=r"was changed to '40000'.*Review it again"):
        alter_group_configs("a/b", {LOCK: "20000"}, actor="op", reviewed={LOCK: None})
    assert stored_configs() == {LOCK: "40000"}
