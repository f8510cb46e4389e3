"""Typed keys and values as bytes, with the schemas of a registry."""

from __future__ import annotations

import json

import msgpack
import pytest

from controlplane.domain.errors import MisfitValue, Rejected
from controlplane.services import record_encoding
from controlplane.services.record_encoding import RecordPart, SchemaChoice, encode, schema_help
from tests.unit.controlplane.domain.protobuf_files import order_schema
from tests.unit.controlplane.domain.test_json_schema_encoding import LINE
from tests.unit.controlplane.services.scripted_schemas import LINE_SCHEMA, ScriptedSchemas
from weir_common.schema_formats import SchemaType


@pytest.fixture
def scripted_schemas(monkeypatch: pytest.MonkeyPatch) -> ScriptedSchemas:
    found = ScriptedSchemas({("lines-value", None): LINE_SCHEMA, ("x", 2): order_schema()})
    monkeypatch.setattr(record_encoding, "registry", lambda: found)
    return found


def test_the_subject_is_that_of_the_topic_and_the_version_the_latest(scripted_schemas: ScriptedSchemas) -> None:
    data = encode("lines", RecordPart.VALUE, '{"price": 1}', "schema", SchemaChoice())
    assert data == b'\0\0\0\0\x05{"price": 1}'


def test_a_subject_with_a_version_and_a_message_type(scripted_schemas: ScriptedSchemas) -> None:
    data = encode("lines", RecordPart.KEY, '{"x": 4}', "schema", SchemaChoice("x", 2, "Other.Inner"))
    assert data == b"\0\0\0\0\x03\x04\x02\0\x08\x04"


def test_other_formats_need_no_registry() -> None:
    assert encode("lines", RecordPart.KEY, "00ff", "hex", SchemaChoice()) == b"\x00\xff"
    assert msgpack.unpackb(encode("lines", RecordPart.VALUE, '{"a": [1]}', "msgpack", SchemaChoice())) == {"a": [1]}
    with pytest.raises(Rejected, match="Not JSON"):
        encode("lines", RecordPart.VALUE, "{", "msgpack", SchemaChoice())
    with pytest.raises(Rejected, match="nested too deeply, or a number of it is too large"):
        encode("lines", RecordPart.VALUE, str(2**70), "msgpack", SchemaChoice())


def test_rejections_name_the_field(scripted_schemas: ScriptedSchemas, monkeypatch: pytest.MonkeyPatch) -> None:
    def rejection_of(choice: SchemaChoice, text: str = "{}") -> Rejected:
        with pytest.raises(Rejected) as error:
            encode("lines", RecordPart.VALUE, text, "schema", choice)
        return error.value

    assert isinstance(rejection_of(SchemaChoice()), MisfitValue) and rejection_of(SchemaChoice()).field == "value"
    assert rejection_of(SchemaChoice("gone")).field == "value_subject"
    assert rejection_of(SchemaChoice("x", 2, "Ordr")).field == "value_message"
    scripted_schemas.down = True
    down = rejection_of(SchemaChoice())
    assert down.field == "" and "did not respond" in down.reason and "WEIR_SCHEMA_REGISTRY_URL" in down.reason
    monkeypatch.setattr(record_encoding, "registry", lambda: None)
    assert rejection_of(SchemaChoice()).field == "value_format"


def test_the_schema_with_a_sample(scripted_schemas: ScriptedSchemas) -> None:
    shown = schema_help("lines", RecordPart.VALUE, SchemaChoice())
    assert (shown.subject, shown.id, shown.type) == ("lines-value", 5, SchemaType.JSON)
    assert json.loads(shown.definition) == LINE and json.loads(shown.sample) == {"price": 1.5}
    with pytest.raises(Rejected, match="no message type"):
        schema_help("lines", RecordPart.KEY, SchemaChoice("x", 2, "Ordr"))
