"""Rows of look-ups: the sizes of whole fields, and notes about cut fields and the place of the record."""

from __future__ import annotations

from brokerd.wire.records import Record
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer
from controlplane.selectors.lookup_rows import lookup_row

RECORD = Record(7, 1_000, b"k", b"value", ())


def test_a_cut_value_has_a_note_and_its_whole_size() -> None:
    row = lookup_row(3, RECORD, 1, 70_000, RecordRenderer("orders"))
    assert (row.partition, row.offset, row.key_bytes, row.value_bytes, row.value) == (3, 7, 1, 70_000, "value")
    assert row.notes == ["value: A look-up has the first 5 of 70,000 bytes; the link of the offset shows more."]


def test_the_place_is_the_last_note_and_null_has_no_size() -> None:
    row = lookup_row(0, Record(7, 1_000, None, None, ()), -1, -1, RecordRenderer("orders"), "From the lake.")
    assert (row.key, row.key_bytes, row.value_bytes, row.notes) == (None, 0, 0, ["From the lake."])


def test_masking_rules_apply() -> None:
    renderer = RecordRenderer("orders", [MaskRule("orders", MaskTarget.VALUE, "")])
    assert lookup_row(0, RECORD, 1, 5, renderer).value != "value"
