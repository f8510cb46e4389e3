"""`weir lookup`: the printed records, problems of partitions and token, and the exit code if more records may match."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management.base import CommandError

from controlplane.domain.errors import Rejected
from controlplane.management.commands import lookup
from controlplane.models import Change
from controlplane.selectors import key_lookups
from controlplane.selectors.key_lookups import KeyLookup, PartitionLookup, PartitionLookupState
from controlplane.selectors.lake_lookups import LakeSearch, LakeState
from controlplane.selectors.messages import MessageRow
from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db
ROW = MessageRow(3, 7, 1_000, "k", "paid", 1, 4, [], [])


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, dict[str, Any]]]:
    seen: list[tuple[bytes, dict[str, Any]]] = []

    def look_up(topic: str, key: bytes, **asked: Any) -> KeyLookup:
        seen.append((key, asked))
        if asked["limit"] == 0:
            raise Rejected("0 records is out of range; use 1 to 100.", "limit")
        if asked["limit"] == 1:
            failed = PartitionLookup(0, PartitionLookupState.FAILED, problem="broker 1 does not respond")
            return KeyLookup(topic, [ROW], [failed], complete=False, token="abc")
        return KeyLookup(topic, [ROW])

    monkeypatch.setattr(key_lookups, "look_up_key", look_up)
    return seen


def test_records_are_printed_and_the_look_up_is_audited(queries: list[tuple[bytes, dict[str, Any]]]) -> None:
    out = run("lookup", "orders", "k", "--from", "1970-01-01T00:00:05", "--header", "id")
    assert "orders-3  7  1970-01-01T00:00:01+00:00  k  paid" in out
    assert queries[0][0] == b"k" and queries[0][1]["from_ms"] == 5_000 and queries[0][1]["header"] == "id"
    change = Change.objects.get()
    assert change.verb == "records.look_up" and change.actor.endswith("(weir lookup)")


def test_the_lake_is_searched_on_request(
    queries: list[tuple[bytes, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run("lookup", "orders", "k")
    assert not queries[0][1]["lake"] and "lake" not in out
    found = KeyLookup("orders", [ROW], lake=LakeSearch(LakeState.SEARCHED, records=1, files=2))
    monkeypatch.setattr(key_lookups, "look_up_key", lambda topic, key, **asked: found)
    assert "lake: 1 records found, 2 files read" in run("lookup", "orders", "k", "--lake")
    assert {str(state) for state in lookup.LAKE_TEXTS} == {str(state) for state in LakeState}


def test_json_has_the_fields_of_the_rest_response(queries: list[tuple[bytes, dict[str, Any]]]) -> None:
    response = json.loads(run("lookup", "orders", "00ff", "--hex", "--json"))
    assert response["rows"][0]["offset"] == 7 and response["complete"] is True and queries[0][0] == b"\x00\xff"


def test_an_incomplete_look_up_has_an_exit_code_of_its_own(queries: list[tuple[bytes, dict[str, Any]]]) -> None:
    with pytest.raises(CommandError) as incomplete:
        run("lookup", "orders", "k", "--limit", "1")
    assert incomplete.value.returncode == lookup.INCOMPLETE_CODE


def test_invalid_input_is_rejected(queries: list[tuple[bytes, dict[str, Any]]]) -> None:
    for wrong in (["zz", "--hex"], ["k", "--from", "yesterday"], ["k", "--limit", "0"]):
        with pytest.raises(CommandError):
            run("lookup", "orders", *wrong)
