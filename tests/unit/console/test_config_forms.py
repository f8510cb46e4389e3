"""The form of one dynamic setting: for a broker or for all, with a value or its removal."""

from __future__ import annotations

from typing import Any

import pytest

from console.config_forms import BROKER_SCOPE, CLUSTER_SCOPE, BrokerConfigForm


def form(**fields: Any) -> BrokerConfigForm:
    return BrokerConfigForm(3, {"name": "log.retention.ms", "scope": CLUSTER_SCOPE, "comment": "x", **fields})


@pytest.mark.parametrize(("fields", "value"), [({"value": "5"}, "5"), ({"value": ""}, ""), ({"remove": "on"}, None)])
def test_a_setting_is_set_or_removed(fields: dict[str, str], value: str | None) -> None:
    it = form(**fields)
    assert it.is_valid() and it.configs() == {"log.retention.ms": value}


def test_a_value_and_its_removal_exclude_each_other() -> None:
    it = form(value="5", remove="on")
    assert not it.is_valid() and "Leave the value empty" in str(it.errors["value"])


def test_the_scope_names_the_broker() -> None:
    choices: Any = form().fields["scope"]
    assert choices.choices == [(BROKER_SCOPE, "Broker 3"), (CLUSTER_SCOPE, "All brokers (cluster-wide)")]
    assert not form(scope="other").is_valid()
