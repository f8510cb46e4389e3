"""The quota APIs: filters as in Kafka, and entities without a bucket."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.quotas import QuotasApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.quotas import Quotas
from brokerd.cluster.quota_entities import CONNECTIONS, entity_key
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.authz.test_quotas import call, decode_reply, quotas


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, 3),
        ([("user", 0, "alice")], False, 2),
        ([("user", 0, "alice")], True, 1),
        ([("user", 1, None)], False, 1),
        ([("user", 2, None)], False, 3),
        ([("client-id", 2, None)], False, 1),
        ([("user", 2, None), ("client-id", 0, "a")], True, 1),
    ],
)
def test_a_filter_matches_as_in_kafka(components: Any, strict: bool, found: int) -> None:
    r = m.DescribeClientQuotasRequest
    body = r(
        components=[r.ComponentData(entity_type=t, match_type=how, match=w) for t, how, w in components], strict=strict
    )
    requested, caller = call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, body)
    QuotasApi(quotas(user_alice=1, user_default=2, user_alice__client_a=3), lambda *a: None, ALLOW_ALL).describe(
        requested
    )
    assert len(decode_reply(caller, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1).entries) == found


def test_a_connection_rate_of_an_address_is_no_request_quota_and_its_filter_has_no_other_part() -> None:
    it = Quotas()
    rates = {entity_key({"ip": "10.0.0.1"}): {CONNECTIONS: 5.0}, entity_key({"ip": None}): {CONNECTIONS: 1.0}}
    it.set(rates.items())
    assert it.connection_rates() == {"10.0.0.1": 5.0, None: 1.0}
    assert not it.active, "requests need not be counted for it"
    r = m.DescribeClientQuotasRequest
    for kinds, error, found in ((["ip"], 0, 2), (["ip", "user"], 42, 0), (["host"], 42, 0)):
        body = r(components=[r.ComponentData(entity_type=k, match_type=2, match=None) for k in kinds])
        requested, caller = call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, body)
        QuotasApi(it, lambda *a: None, ALLOW_ALL).describe(requested)
        response = decode_reply(caller, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)
        assert (response.error_code, len(response.entries or [])) == (error, found), kinds
