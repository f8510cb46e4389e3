"""Broker settings on a page: where a value comes from, hidden values, and the form of a setting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from console.templatetags import broker_configs as tags
from controlplane.domain.broker_config import BrokerConfigSource


def row(**fields: Any) -> Any:
    given = {"name": "log.retention.ms", "value": "60000", "sensitive": False, "source": BrokerConfigSource.FILE}
    return SimpleNamespace(**{**given, **fields})


@pytest.mark.parametrize("source", list(BrokerConfigSource))
def test_each_source_has_a_label_and_only_the_default_is_faint(source: BrokerConfigSource) -> None:
    shown = tags.config_source(source.value)
    assert str(tags.LABELS[source]) in shown and ("sub" in shown) is (source == BrokerConfigSource.DEFAULT)


def test_a_value_is_shown_with_its_meaning_unless_it_is_sensitive() -> None:
    assert tags.reported_value(row(), "60000") == '60000 <span class="sub">(1 min)</span>'
    assert tags.reported_value(row(name="broker.rack"), "<r>") == "&lt;r&gt;"
    assert "Not set." in tags.reported_value(row(), None)
    hidden = tags.reported_value(row(sensitive=True), "secret")
    assert "hidden" in hidden and "secret" not in hidden


@pytest.mark.parametrize(
    ("source", "scope"), [(BrokerConfigSource.DYNAMIC_CLUSTER, "cluster"), (BrokerConfigSource.FILE, "broker")]
)
def test_the_form_of_a_setting_has_its_value_and_its_scope(source: BrokerConfigSource, scope: str) -> None:
    address = tags.edit_config_url(3, row(source=source, value=None))
    assert address == f"/brokers/3/configs/edit/?name=log.retention.ms&value=&scope={scope}"
