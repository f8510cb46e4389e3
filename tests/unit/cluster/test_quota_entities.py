"""Quota entities: their keys, and which entities and values are accepted."""

from __future__ import annotations

import pytest

from brokerd.cluster.quota_entities import KEYS, entity_key, entity_of, entity_problem, quota_keys, value_problem


def test_the_key_of_an_entity_does_not_depend_on_the_order_and_can_be_read_again() -> None:
    entity: dict[str, str | None] = {"user": 'a"b', "client-id": None}
    assert entity_key(entity) == entity_key(dict(reversed(entity.items()))) == '{"client-id":null,"user":"a\\"b"}'
    assert entity_of(entity_key(entity)) == entity


@pytest.mark.parametrize(
    "entity", [{"user": "a"}, {"client-id": None}, {"user": None, "client-id": "c"}, {"ip": "::1"}, {"ip": None}]
)
def test_users_client_ids_and_addresses_are_entities(entity: dict[str, str | None]) -> None:
    assert entity_problem(entity) is None


@pytest.mark.parametrize(
    "entity",
    [{}, {"topic": "t"}, {"user": "a", "ip": "10.0.0.1"}, {"ip": "host.example"}, {"user": ""}, {"user": "x" * 401}],
)
def test_other_entities_are_rejected(entity: dict[str, str | None]) -> None:
    assert entity_problem(entity)


def test_an_address_has_another_quota_than_users() -> None:
    assert quota_keys({"user": "a"}) == KEYS and quota_keys({"ip": None}) == ("connection_creation_rate",)
    assert value_problem({"ip": None}, "producer_byte_rate", 5.0) and value_problem({"user": "a"}, "nonsense", 5.0)
    for wrong in (0.0, -1.0, 1e18, float("nan")):
        assert value_problem({"user": "a"}, "producer_byte_rate", wrong)
    assert value_problem({"user": "a"}, "producer_byte_rate", 0.5) is None
    assert value_problem({"user": "a"}, "producer_byte_rate", None) is None, "a removal"
