"""Settings of groups: layers with their sources, and changes that are valid as a whole or rejected."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.group_configs import NAME_CHARACTERS_MAX, RESOURCE_GROUP, SOURCE_GROUP, GroupConfigs
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP, AccessChanged
from brokerd.cluster.requests import AccessUpdate, AlterConfigOp, ItemResult, OpType
from brokerd.config.broker import BrokerConfig
from brokerd.wire.errors import ErrorCode

SESSION = "consumer.session.timeout.ms"


def configs(**own: str) -> GroupConfigs:
    image = Image()
    if own:
        image.apply(AccessChanged(GROUP, "g", 1, {k.replace("_", "."): v for k, v in own.items()}))
    return GroupConfigs(BrokerConfig.parse({"broker.id": "1", "log.dirs": "/x"}).values, lambda: image)


def change(it: GroupConfigs, name: str, value: str | None, op: OpType = OpType.SET) -> Any:
    return it.change("g", [AlterConfigOp(name, op, value)])


def test_a_setting_of_the_group_is_in_front_of_the_brokers() -> None:
    layers = {name: values for name, values, _ in configs(consumer_session_timeout_ms="50000").layers("g")}
    own, broker = layers[SESSION]
    assert own == (SESSION, "50000", SOURCE_GROUP) and broker[0] == "group.consumer.session.timeout.ms"
    assert [len(v) for name, v in layers.items() if name != SESSION] == [1] * (len(layers) - 1)
    assert configs().set("g") == {} and RESOURCE_GROUP == 32


def test_a_change_contains_all_settings_of_the_group() -> None:
    it = configs(consumer_session_timeout_ms="50000")
    heartbeat = change(it, "consumer.heartbeat.interval.ms", "6000")
    assert heartbeat == AccessUpdate("g", GROUP, {SESSION: "50000", "consumer.heartbeat.interval.ms": "6000"})
    assert change(it, SESSION, None, OpType.DELETE) == AccessUpdate("g", GROUP, None), "the last setting"


@pytest.mark.parametrize(
    ("name", "value", "op"),
    [
        (SESSION, "soon", OpType.SET),
        (SESSION, "1", OpType.SET),
        ("no.such.setting", "1", OpType.SET),
        (SESSION, "50000", OpType.APPEND),
    ],
)
def test_an_invalid_change_is_rejected(name: str, value: str, op: OpType) -> None:
    rejected = change(configs(), name, value, op)
    assert isinstance(rejected, ItemResult) and rejected.error == ErrorCode.INVALID_CONFIG and rejected.message


@pytest.mark.parametrize("group_id", ["", "g" * (NAME_CHARACTERS_MAX + 1)])
def test_a_group_id_has_limits(group_id: str) -> None:
    rejected = configs().change(group_id, [])
    assert isinstance(rejected, ItemResult) and rejected.error == ErrorCode.INVALID_REQUEST
