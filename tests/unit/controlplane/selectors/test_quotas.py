"""The list of client quotas, and the current use of one."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.quota_use import MeasuredRate
from controlplane.models import AccessEntry
from controlplane.selectors import quotas as selectors
from controlplane.services import access, quotas
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def set_producer_quota(limit: float, **entity: str | None) -> AccessEntry:
    named = {name.replace("_", "-"): value for name, value in entity.items()}
    return quotas.set_quota(named, {"producer_byte_rate": limit}, actor="op")


def responses(monkeypatch: pytest.MonkeyPatch, by_broker: dict[int, dict[str, float] | None]) -> None:
    def call_brokers(brokers: Any, call: Any) -> list[BrokerResponse[list[MeasuredRate]]]:
        assert [b.broker_id for b in brokers] == list(by_broker)
        return [
            BrokerResponse(
                b, None if rates is None else [MeasuredRate(k, "producer_byte_rate", v) for k, v in rates.items()]
            )
            for b, rates in by_broker.items()
        ]

    monkeypatch.setattr(selectors, "call_brokers", call_brokers)


def test_the_list_has_a_filter_by_name_and_by_type() -> None:
    set_producer_quota(5, user="ann")
    set_producer_quota(6, user="zoë", client_id=None)
    quotas.set_quota({"ip": None}, {"connection_creation_rate": 3.0}, actor="op")
    access.put("scram", "SCRAM-SHA-256:ann", {"x": 1}, actor="op")
    names = [r.name for r in selectors.quota_list().rows]
    assert sorted(names) == ["ip <default>", "user ann", "user zoë, client-id <default>"]
    assert [r.name for r in selectors.quota_list(query="ZOË".lower()).rows] == ["user zoë, client-id <default>"]
    assert [r.name for r in selectors.quota_list(entity_type="ip").rows] == ["ip <default>"]
    assert selectors.quota_list(entity_type="user").total == 2
    newest = selectors.quota_list(sort="-changed_at", per_page=1)
    assert (newest.total, [r.name for r in newest.rows]) == (3, ["ip <default>"])


def test_a_quota_is_pending_until_the_log_has_it() -> None:
    row = set_producer_quota(5, user="ann")
    assert [r.applied for r in selectors.quota_list().rows] == [False]
    access.mark_applied(row, 1)
    assert [r.applied for r in selectors.quota_list().rows] == [True]
    quotas.delete_quota(row.pk, actor="op")
    assert selectors.quota_row(row.pk) is None and selectors.quota_list().total == 0


def test_the_use_of_a_default_has_each_client_that_has_no_quota_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    World(brokers=3)
    own, default = set_producer_quota(100, user="ann"), set_producer_quota(50, user=None)
    rates = {'{"user":"ann"}': 20.0, '{"user":"bob"}': 60.0, '{"client-id":"c"}': 5.0}
    responses(monkeypatch, {1: rates, 2: {'{"user":"bob"}': 10.0}, 3: None})
    detail = selectors.quota_detail(default.pk)
    assert detail is not None and (detail.silent_brokers, detail.responses) == ([3], 2)
    assert [(u.name, u.broker_id, u.per_second, u.percent) for u in detail.use] == [
        ("user bob", 1, 60.0, 120.0),
        ("user bob", 2, 10.0, 20.0),
    ]
    detail = selectors.quota_detail(own.pk)
    assert detail is not None and [(u.name, u.percent, u.unit) for u in detail.use] == [("user ann", 20.0, "bytes/s")]
    assert selectors.quota_detail(99) is None


def test_the_use_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    World(brokers=1)
    default = set_producer_quota(50, user=None)
    responses(monkeypatch, {1: {f'{{"user":"u{n}"}}': float(n) for n in range(250)}})
    detail = selectors.quota_detail(default.pk)
    assert (
        detail is not None and (len(detail.use), detail.use_count) == (200, 250) and detail.use[0].name == "user u249"
    )
