"""The settings of a broker: filters, and the comparison with another broker."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig
from controlplane.selectors import broker_configs as selectors
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def reported_configs(**values: str) -> dict[str, ReportedConfig]:
    return {
        name.replace("_", "."): ReportedConfig(
            name.replace("_", "."),
            value,
            BrokerConfigSource.FILE if value != "1" else BrokerConfigSource.DEFAULT,
            "1",
            False,
            False,
            "",
        )
        for name, value in values.items()
    }


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> dict[int, BrokerResponse[Any]]:
    World(brokers=3)
    found: dict[int, BrokerResponse[Any]] = {
        1: BrokerResponse(1, reported_configs(log_dirs="/a", num_threads="1", same="1")),
        2: BrokerResponse(2, reported_configs(log_dirs="/b", num_threads="1", same="1")),
        3: BrokerResponse(3, None, "it is down"),
    }
    monkeypatch.setattr(selectors, "call_brokers", lambda brokers, call: [found[b.broker_id] for b in brokers])
    return found


def test_filters_and_counts(responses: Any) -> None:
    found = selectors.broker_configs(1, other_id=2)
    assert found is not None and (found.total, found.changed, found.different) == (3, 1, 1)
    for options, names in (
        ({"only": "changed"}, ["log.dirs"]),
        ({"only": "different"}, ["log.dirs"]),
        ({"query": "THREAD"}, ["num.threads"]),
        ({"only": "changed", "query": "thread"}, []),
    ):
        listed = selectors.broker_configs(1, other_id=2, **options)
        assert listed is not None and [r.name for r in listed.rows] == names and listed.total == 3


def test_a_broker_that_does_not_respond_is_named(responses: Any) -> None:
    found = selectors.broker_configs(3, other_id=1)
    assert found is not None and (found.rows, found.problem, found.other_problem) == ([], "it is down", "")
    found = selectors.broker_configs(1, other_id=3)
    assert found is not None and found.other_problem == "it is down" and found.different == 0 and len(found.rows) == 3
    found = selectors.broker_configs(1, other_id=99)
    assert found is not None and found.other_problem == "There is no broker 99."
    assert selectors.broker_configs(99) is None


def test_a_broker_is_compared_with_itself(responses: Any) -> None:
    found = selectors.broker_configs(1, other_id=1)
    assert found is not None and found.different == 0 and len(found.rows) == 3
