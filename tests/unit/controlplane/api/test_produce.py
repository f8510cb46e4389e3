"""Producing and copying over REST."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from controlplane.clients.record_range import RecordRange
from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.services import produce, record_encoding
from tests.unit.controlplane.services.scripted_schemas import LINE_SCHEMA, ScriptedSchemas
from tests.unit.controlplane.world import World

ADDRESS = "/api/v1/topics/orders/records"
COPY = {"source_topic": "orders", "source_partition": 0, "first_offset": 4, "last_offset": 6}


@pytest.fixture
def sent_records(world: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> list[NewRecord]:
    """The records that were sent, instead of brokers."""
    world.topic("orders", (1, 2))
    records: list[NewRecord] = []

    def send(topic: str, batch: Sequence[NewRecord]) -> list[ProducedRecord]:
        records.extend(batch)
        return [ProducedRecord(0, 41 + n) for n, _ in enumerate(batch)]

    source = RecordRange([(4, NewRecord(b"k", b"v", (), None, 7))], 0, 9, True)
    monkeypatch.setattr(produce.producer, "produce", send)
    monkeypatch.setattr(produce.record_range, "read_range", lambda *_: source)
    for command in ("produce_records", "read_records"):
        call_command(command, "alice")
    return records


def test_a_record_in_formats_with_headers(sent_records: list[NewRecord], operator: APIClient) -> None:
    body = {
        "key": "00ff",
        "key_format": "hex",
        "value": '{"a": 1}',
        "value_format": "json",
        "headers": [{"name": "h", "value": "x"}, {"name": "n"}],
        "partition": 0,
        "timestamp_ms": 9,
        "count": 2,
    }
    response = operator.post(ADDRESS, body, format="json")
    assert response.status_code == 200, response.json()
    assert sent_records == [NewRecord(b"\x00\xff", b'{"a": 1}', (("h", b"x"), ("n", None)), 0, 9)] * 2
    assert response.json()["written"] == 2
    assert response.json()["records"][1] == {"partition": 0, "offset": 42, "problem": "", "unknown": False}


def test_a_tombstone_is_a_null_value_and_must_be_given(sent_records: list[NewRecord], operator: APIClient) -> None:
    assert operator.post(ADDRESS, {"key": "k", "value": None}, format="json").status_code == 200
    assert sent_records == [NewRecord(b"k", None)]
    assert operator.post(ADDRESS, {"key": "k"}, format="json").json()["field"] == "value"


def test_input_without_its_format_is_400_and_without_permission_403(
    sent_records: list[NewRecord], operator: APIClient, viewer_client: APIClient
) -> None:
    response = operator.post(ADDRESS, {"value": "{", "value_format": "json"}, format="json")
    assert (response.status_code, response.json()["field"]) == (400, "value")
    assert viewer_client.post(ADDRESS, {"value": "x"}, format="json").status_code == 403
    assert operator.post("/api/v1/topics/missing/records", {"value": "x"}, format="json").status_code == 404
    call_command("produce_records", "alice", "--revoke")
    response = operator.post(ADDRESS, {"value": "x"}, format="json")
    assert (response.status_code, "produce_records" in response.json()["detail"]) == (403, True)
    assert sent_records == []


def test_a_copy_and_its_preview(sent_records: list[NewRecord], operator: APIClient) -> None:
    preview = operator.post("/api/v1/topics/orders/record-copies/preview", COPY, format="json")
    assert (preview.status_code, preview.json()["records"]) == (200, 1) and sent_records == []
    response = operator.post("/api/v1/topics/orders/record-copies", COPY, format="json")
    assert (response.status_code, response.json()["written"]) == (200, 1)
    assert sent_records == [NewRecord(b"k", b"v", (), None, 7)]
    operator.post("/api/v1/topics/orders/record-copies", {**COPY, "timestamp": "now"}, format="json")
    assert sent_records[1].timestamp_ms is None


def test_the_paths_of_the_actions_reject_unknown_values(sent_records: list[NewRecord], operator: APIClient) -> None:
    response = operator.post("/api/v1/topics/orders/record-copies", {**COPY, "last_offset": 5000}, format="json")
    assert (response.status_code, response.json()["field"]) == (400, "last_offset")


def test_a_value_with_a_schema_and_all_its_faults(
    sent_records: list[NewRecord], operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_encoding, "registry", lambda: ScriptedSchemas({("orders-value", None): LINE_SCHEMA}))
    body = {"value": '{"price": 1}', "value_format": "schema", "key": "k"}
    assert operator.post(ADDRESS, body, format="json").status_code == 200
    assert sent_records == [NewRecord(b"k", b'\0\0\0\0\x05{"price": 1}')]
    response = operator.post(ADDRESS, {**body, "value": '{"price": "x"}'}, format="json")
    assert response.status_code == 400 and response["Content-Type"] == "application/problem+json"
    assert response.json()["errors"] == [
        {
            "field": "value.price",
            "code": "rejected",
            "detail": '$.price must be a number, but it is the text "x".',
        }
    ]
    response = operator.post(ADDRESS, {**body, "value_subject": "gone"}, format="json")
    assert response.json()["errors"][0]["field"] == "value_subject" and len(sent_records) == 1
