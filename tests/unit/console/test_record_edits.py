"""A read record as the content of the Produce form: the same bytes, or a sentence that says what is missing."""

from __future__ import annotations

from typing import Any

from brokerd.wire.records import Record
from console.record_edits import edited_copy
from controlplane.domain.formats import TEXT_CHARS_MAX
from controlplane.domain.masking import RecordRenderer
from controlplane.selectors.messages import MessageRow, message_row


def row_of(**given: Any) -> MessageRow:
    fields = {"key": b"k", "value": b'{"a": 1}', "headers": ()} | given
    return message_row(4, Record(7, 1_000, fields["key"], fields["value"], fields["headers"]), RecordRenderer("orders"))


def test_a_record_is_filled_in_with_its_formats_and_partition() -> None:
    copy = edited_copy(row_of(headers=(("trace", b"1"), ("empty", None))), masked=False, has_registry=False)
    assert copy.left_out == []
    assert copy.initial == {
        "partition": 4,
        "count": 1,
        "key": "k",
        "key_format": "text",
        "value": '{"a": 1}',
        "value_format": "json",
        "headers": "trace: 1\nempty",
    }


def test_bytes_that_are_not_text_are_hex_and_a_null_value_is_a_tombstone() -> None:
    copy = edited_copy(row_of(key=b"\xff\x00", value=None), masked=False, has_registry=False)
    assert copy.initial["key"] == "ff00" and copy.initial["key_format"] == "hex"
    assert copy.initial["tombstone"] and "value" not in copy.initial and copy.left_out == []


def test_a_null_key_is_left_empty_and_is_no_tombstone() -> None:
    copy = edited_copy(row_of(key=None), masked=False, has_registry=False)
    assert "key" not in copy.initial and not copy.initial.get("tombstone") and copy.left_out == []


def test_what_the_form_cannot_hold_is_left_out_and_named() -> None:
    headers = (("token", b"\xff"), ("a:b", b"1"), ("lines", b"1\n2"), ("trace", b"1"))
    copy = edited_copy(row_of(value=b"x" * (TEXT_CHARS_MAX + 1), headers=headers), masked=False, has_registry=False)
    assert "value" not in copy.initial and copy.initial["headers"] == "trace: 1"
    assert "value cannot be edited" in copy.left_out[0]
    assert copy.left_out[1].endswith("omitted: token, a:b, lines.")


def test_a_masked_record_is_not_filled_in() -> None:
    copy = edited_copy(row_of(), masked=True, has_registry=False)
    assert "key" not in copy.initial and "value" not in copy.initial and "Masking rules" in copy.left_out[0]
