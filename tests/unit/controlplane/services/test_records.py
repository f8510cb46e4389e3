"""Look-ups by key need the permission to read records, and each is in the audit log: by REST and on the command line."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from rest_framework.test import APIClient

from controlplane.domain.key_search import ScanCause
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.models import Change, MaskingRule
from controlplane.selectors import key_lookups
from controlplane.selectors.key_lookups import KeyLookup
from controlplane.selectors.messages import MessageRow
from controlplane.services import records
from tests.unit.controlplane.world import World

PATH = "/api/v1/topics/orders/records"


@pytest.fixture
def queries(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes, dict[str, Any]]]:
    world.topic("orders", (1, 2))
    seen: list[tuple[str, bytes, dict[str, Any]]] = []

    def look_up(topic: str, key: bytes, **asked: Any) -> KeyLookup:
        seen.append((topic, key, asked))
        return KeyLookup(topic, [MessageRow(0, 7, None, "k", "secret", 1, 6, [], [])])

    monkeypatch.setattr(key_lookups, "look_up_key", look_up)
    return seen


def allow(client: APIClient, name: str) -> None:
    get_user_model().objects.get(username=name).user_permissions.add(Permission.objects.get(codename="read_records"))


def test_a_look_up_needs_the_permission_and_is_audited(
    queries: list[tuple[str, bytes, dict[str, Any]]], operator: APIClient
) -> None:
    rejected = operator.get(PATH, {"key": "k"})
    assert rejected.status_code == 403 and queries == []
    allow(operator, "alice")
    response = operator.get(PATH, {"key": " k ", "header": "id", "partition": "0", "from_ms": "5"})
    assert response.status_code == 200 and response.json()["rows"][0]["value"] == "secret"
    ((topic, key, asked),) = queries
    assert (topic, key, asked["header"], asked["partitions"], asked["from_ms"]) == ("orders", b" k ", "id", (0,), 5)
    done, before = Change.objects.order_by("-id")[:2]
    assert (done.actor, done.verb, done.object_name, done.outcome) == (
        "alice",
        "records.look_up",
        "orders",
        "confirmed",
    )
    assert (
        done.after == {"topic": "orders", "partitions": "0", "key": " k ", "records": 1} and before.outcome == "refused"
    )


def test_a_user_cannot_search_a_key_or_header_that_is_masked_for_them(
    queries: list[tuple[str, bytes, dict[str, Any]]], viewer_client: APIClient, operator: APIClient
) -> None:
    allow(viewer_client, "bob")
    allow(operator, "alice")
    MaskingRule.objects.create(topics="orders", target="header", field="card-*", created_by="root")
    assert viewer_client.get(PATH, {"key": "4711", "header": "Card-Number"}).status_code == 403
    assert viewer_client.get(PATH, {"key": "4711"}).status_code == 200
    MaskingRule.objects.create(topics="orders", target="key", field="", created_by="root")
    assert viewer_client.get(PATH, {"key": "4711"}).status_code == 403
    assert operator.get(PATH, {"key": "4711"}).status_code == 200
    assert queries[0][2]["renderer"].masks and not queries[1][2]["renderer"].masks
    assert len(queries) == 2 and not any("4711" in str(c.after) for c in Change.objects.all())


def test_a_key_is_text_or_hexadecimal(queries: list[tuple[str, bytes, dict[str, Any]]], operator: APIClient) -> None:
    allow(operator, "alice")
    assert operator.get(PATH, {"key_hex": "00fF"}).status_code == 200
    assert operator.get(PATH, {"key": ""}).status_code == 200
    assert [q[1] for q in queries] == [b"\x00\xff", b""]
    for wrong in ({}, {"key": "k", "key_hex": "00"}, {"key_hex": "0"}, {"key": "k", "partition": "-1"}):
        assert operator.get(PATH, wrong).status_code == 400
    assert operator.get("/api/v1/topics/nope/records", {"key": "k"}).status_code == 404


# -- searches for a key on the Messages page ------------------------------------------------------------------------------------------------


def search(topic: str = "orders", **more: Any) -> RecordQuery:
    filters = RecordFilters(**{"key": "k"} | {f: more.pop(f) for f in ("value_contains",) if f in more})
    return RecordQuery(topic, filters=filters, **more)


def person(name: str) -> Any:
    """With the permissions as they are stored now."""
    return get_user_model().objects.get(username=name)


def test_a_search_uses_the_index_where_the_topic_has_one_and_the_user_sees_the_keys(
    world: World, operator: APIClient, viewer_client: APIClient
) -> None:
    world.topic("orders", (1, 2), configs={"weir.index.keys": "true"})
    world.topic("plain", (1, 2))
    alice, bob = person("alice"), person("bob")
    assert records.key_scan_cause(alice, search()) is None
    assert records.key_scan_cause(alice, search("plain")) is ScanCause.NO_INDEX
    assert records.key_scan_cause(alice, search("absent")) is ScanCause.NO_INDEX
    MaskingRule.objects.create(topics="orders", target="key", field="", created_by="root")
    assert records.key_scan_cause(alice, search()) is None
    assert records.key_scan_cause(bob, search()) is ScanCause.MASKED


def test_a_search_asks_for_the_time_range_and_the_partitions_of_the_query(
    queries: list[tuple[str, bytes, dict[str, Any]]], operator: APIClient
) -> None:
    allow(operator, "alice")
    query = search(
        start=StartPosition.TIMESTAMP,
        timestamp_ms=1_000,
        until_ms=2_000,
        partitions=(0,),
        limit=key_lookups.MATCHES_MAX + 1,
    )
    records.search_by_key(person("alice"), query, "TOKEN")
    ((_, key, asked),) = queries
    assert (key, asked["from_ms"], asked["to_ms"]) == (b"k", 1_000, 2_000)
    assert (asked["partitions"], asked["limit"], asked["token"]) == ((0,), key_lookups.MATCHES_MAX, "TOKEN")
    before_ms = time.time_ns() // 1_000_000
    records.search_by_key(person("alice"), search(start=StartPosition.MINUTES, minutes=5))
    assert before_ms - 300_000 <= queries[1][2]["from_ms"] <= time.time_ns() // 1_000_000 - 300_000
    records.search_by_key(person("alice"), search())
    assert queries[2][2]["from_ms"] is None and queries[2][2]["partitions"] == ()


def test_a_download_by_key_is_permitted_and_audited_as_one(
    world: World, operator: APIClient, viewer_client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("orders", (1, 2), configs={"weir.index.keys": "true"})
    found = KeyLookup("orders", [MessageRow(0, 7, None, "k", "secret", 1, 6, [], [])])
    monkeypatch.setattr(key_lookups, "look_up_for_download", lambda *_, **__: found)
    with pytest.raises(PermissionDenied):
        records.download_by_key(person("alice"), search())
    allow(operator, "alice")
    allow(viewer_client, "bob")
    assert records.download_by_key(person("alice"), search()) is found
    done, rejected = Change.objects.order_by("-id")[:2]
    assert (done.verb, done.outcome, rejected.outcome) == ("records.download", "confirmed", "refused")
    assert done.after["records"] == 1 and done.after["offsets"] == {"0": [7, 7]}
    MaskingRule.objects.create(topics="orders", target="key", field="", created_by="root")
    with pytest.raises(PermissionDenied):
        records.download_by_key(person("bob"), search())
