"""The pages that produce a record and copy records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from brokerd.wire.records import Record
from controlplane.clients.record_range import RecordRange
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.domain.record_query import RecordQuery
from controlplane.selectors import messages
from controlplane.selectors.messages import MessageRead, message_row
from controlplane.services import produce, record_encoding
from tests.unit.controlplane.services.scripted_schemas import LINE_SCHEMA, ScriptedSchemas
from tests.unit.controlplane.world import World

PRODUCE, COPY = "/topics/orders/produce/", "/topics/orders/copy/"
FORM = {"key_format": "text", "value_format": "text", "count": "1"}
RANGE = {"source_partition": "0", "first_offset": "4", "last_offset": "6", "topic": "copies", "timestamp": "original"}


@pytest.fixture
def sent_records(world: World, operator: Client, monkeypatch: pytest.MonkeyPatch) -> list[NewRecord]:
    """The records that were sent, instead of brokers."""
    for topic in ("orders", "copies"):
        world.topic(topic, (1, 2))
    records: list[NewRecord] = []

    def send(topic: str, batch: Sequence[NewRecord]) -> list[ProducedRecord]:
        records.extend(batch)
        return [ProducedRecord(0, 9041 + n) for n, _ in enumerate(batch)]

    source = RecordRange([(4, NewRecord(b"k", b"v", (), None, 7))], 0, 9, True)
    monkeypatch.setattr(produce.producer, "produce", send)
    monkeypatch.setattr(produce.record_range, "read_range", lambda *_: source)
    for command in ("produce_records", "read_records"):
        call_command(command, "alice")
    return records


def test_a_record_is_produced_and_its_place_is_shown(sent_records: list[NewRecord], operator: Client) -> None:
    form = {
        **FORM,
        "key": "k",
        "value": '{\r\n"a": 1}',
        "value_format": "json",
        "headers": "trace: 1\r\nempty",
        "count": "2",
    }
    page = operator.post(PRODUCE, form)
    assert page.status_code == 302 and page.headers["Location"] == PRODUCE
    assert "written to" not in operator.get(COPY).content.decode(), "the result belongs to the other page"
    text = operator.get(PRODUCE).content.decode()
    assert "2 written to orders" in text and "9042" in text
    assert "2 of 2 records, in the order of the request" in text
    assert sent_records == [NewRecord(b"k", b'{\n"a": 1}', (("trace", b"1"), ("empty", None)))] * 2
    assert "written to" not in operator.get(PRODUCE).content.decode(), "the result is shown one time"
    assert len(sent_records) == 2


def test_an_empty_value_is_not_a_tombstone(sent_records: list[NewRecord], operator: Client) -> None:
    operator.post(PRODUCE, FORM)
    operator.post(PRODUCE, {**FORM, "key": "k", "tombstone": "on"})
    assert sent_records == [NewRecord(None, b""), NewRecord(b"k", None)]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"value": "{", "value_format": "json"}, "Not JSON"),
        ({"value": "x", "tombstone": "on"}, "A tombstone has no value"),
        ({"count": "2000"}, "out of range"),
        ({"partition": "7"}, "partitions 0 to 0"),
    ],
)
def test_wrong_input_is_named_beside_its_field(
    sent_records: list[NewRecord], operator: Client, given: dict[str, str], reason: str
) -> None:
    page = operator.post(PRODUCE, {**FORM, **given})
    assert page.status_code == 400 and reason in page.content.decode() and sent_records == []


def test_producing_without_permission_names_the_missing_permission(
    sent_records: list[NewRecord], operator: Client, viewer: Client
) -> None:
    call_command("produce_records", "alice", "--revoke")
    assert "manage.py produce_records USER" in operator.get(PRODUCE).content.decode()
    for address, form in ((PRODUCE, FORM), (COPY, RANGE)):
        assert operator.post(address, form).status_code == viewer.post(address, form).status_code == 403
    assert sent_records == []


def test_a_copy_shows_a_preview_first(sent_records: list[NewRecord], operator: Client) -> None:
    text = operator.post(COPY, {**RANGE, "step": "review"}).content.decode()
    assert "Log start offset 0, log end offset 9." in text
    assert "1 records, 2 bytes" in text and "Copy 1 records" in text and sent_records == []
    assert operator.post(COPY, {**RANGE, "step": "apply"}).status_code == 302
    assert "1 written to copies" in operator.get(COPY).content.decode()
    assert sent_records == [NewRecord(b"k", b"v", (), None, 7)]


def test_a_copy_of_too_many_records_is_rejected(sent_records: list[NewRecord], operator: Client) -> None:
    page = operator.post(COPY, {**RANGE, "last_offset": "99999"})
    assert page.status_code == 400 and "Copy in parts" in page.content.decode()


def test_unknown_topics_are_404(world: Any, operator: Client) -> None:
    for address in (PRODUCE, COPY):
        assert operator.get(address.replace("orders", "missing")).status_code == 404


def test_the_fields_of_a_schema_need_a_registry(sent_records: list[NewRecord], operator: Client) -> None:
    text = operator.get(PRODUCE).content.decode()
    assert "value_subject" not in text and "encoded as MessagePack" in text and "encoded with a schema" not in text


def test_a_value_is_encoded_with_a_schema(
    sent_records: list[NewRecord], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_encoding, "registry", lambda: ScriptedSchemas({("orders-value", None): LINE_SCHEMA}))
    form = {**FORM, "value": '{"price": "x", "q": 1}', "value_format": "schema"}
    assert 'placeholder="orders-value"' in operator.get(PRODUCE).content.decode()
    page = operator.post(PRODUCE, form)
    assert page.status_code == 400 and sent_records == []
    assert "$.price must be a number, but it is the text" in page.content.decode()
    shown = operator.post(PRODUCE, {**form, "step": "schema"}).content.decode()
    assert "orders-value, JSON, ID 5" in shown and "Sample value" in shown and "&quot;price&quot;: 1.5" in shown
    assert sent_records == [], "the schema is shown, nothing is produced"
    assert operator.post(PRODUCE, {**form, "value": '{"price": 2}'}).status_code == 302
    assert sent_records == [NewRecord(None, b'\0\0\0\0\x05{"price": 2}')]


def test_a_schema_that_cannot_be_shown_is_named(
    sent_records: list[NewRecord], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_encoding, "registry", lambda: ScriptedSchemas({}))
    page = operator.post(PRODUCE, {**FORM, "step": "schema"})
    assert page.status_code == 400 and "Choose the format" in page.content.decode()
    page = operator.post(PRODUCE, {**FORM, "step": "schema", "value_format": "schema"})
    assert page.status_code == 400 and "The schema registry has no subject orders-value" in page.content.decode()


@pytest.fixture
def stored_record(sent_records: list[NewRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read finds the record at offset 7 of partition 0."""

    def read(query: RecordQuery, resume: str = "", *, renderer: RecordRenderer, plain: RecordRenderer) -> MessageRead:
        found = Record(7, 1_000, b"order-7", b'{"a": 1}', (("trace", b"1"),))
        return MessageRead(query.topic, [message_row(0, found, renderer)])

    monkeypatch.setattr(messages, "read_messages", read)


def test_the_form_has_a_copy_of_the_record_of_the_address(
    stored_record: None, sent_records: list[NewRecord], operator: Client
) -> None:
    page = operator.get(f"{PRODUCE}?partition=0&offset=7")
    initial = page.context["form"].initial
    assert initial["value"] == '{"a": 1}' and initial["key"] == "order-7" and initial["partition"] == 0
    assert "order-7" in page.content.decode() and sent_records == []
    posted = operator.post(f"{PRODUCE}?partition=0&offset=7", {**FORM, **initial, "value": '{"a": 2}'})
    assert posted.status_code == 302
    assert sent_records == [NewRecord(b"order-7", b'{"a": 2}', (("trace", b"1"),), 0)]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("?partition=0&offset=6", "has no record at offset 6"),
        ("?partition=x&offset=6", "no partition and offset"),
    ],
)
def test_a_missing_record_is_reported_above_an_empty_form(
    stored_record: None, operator: Client, address: str, reason: str
) -> None:
    page = operator.get(PRODUCE + address)
    assert page.status_code == 200 and reason in page.content.decode()
    assert page.context["form"].initial == {}


def test_a_copy_needs_the_permission_to_read_records(stored_record: None, operator: Client) -> None:
    call_command("read_records", "alice", "--revoke")
    text = operator.get(f"{PRODUCE}?partition=0&offset=7").content.decode()
    assert "order-7" not in text and "read_records" in text
