"""The configs of a group: one broker answers for all, and the filters."""

from __future__ import annotations

import pytest

from controlplane.models import AccessEntry, Broker
from controlplane.selectors.group_configs import GroupConfigChoice, desired_group_configs, filter_configs, group_configs
from tests.unit.controlplane.config_broker import ConfigBroker
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
LOCK = "share.record.lock.duration.ms"


def test_configs_filters_and_the_reason_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    World(brokers=2)
    broker = ConfigBroker({"g": {LOCK: "20000"}}).replace_connections(monkeypatch)
    found = group_configs("g")
    assert (found.own, found.problem) == (1, "") and len(found.configs) > 10
    names = {choice: [r.name for r in filter_configs(found.configs, choice)] for choice in GroupConfigChoice}
    assert names[GroupConfigChoice.OWN] == [LOCK]
    kinds = (GroupConfigChoice.CONSUMER, GroupConfigChoice.SHARE, GroupConfigChoice.STREAMS)
    assert sorted(name for kind in kinds for name in names[kind]) == names[GroupConfigChoice.ALL]
    assert names[GroupConfigChoice.STREAMS] and all(n.startswith("streams.") for n in names[GroupConfigChoice.STREAMS])
    assert all(n.startswith("consumer.") for n in names[GroupConfigChoice.CONSUMER])
    assert [r.name for r in filter_configs(found.configs, GroupConfigChoice.ALL, "LOCK.DURATION")] == [LOCK]
    broker.silent = True
    silent = group_configs("g")
    assert (silent.configs, silent.problem) == ([], "1: it is down; 2: it is down")
    Broker.objects.update(alive=False)
    assert group_configs("g").configs == []


def test_desired_configs_are_those_of_the_database() -> None:
    assert desired_group_configs("g") == {}
    AccessEntry.objects.create(kind="group", key="g", value={LOCK: "20000"}, generation=1, changed_by="op")
    assert desired_group_configs("g") == {LOCK: "20000"}
    AccessEntry.objects.update(value=None)
    assert desired_group_configs("g") == {}
