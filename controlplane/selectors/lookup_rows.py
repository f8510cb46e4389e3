"""A record that a look-up by key has found, as a row. Does not contain: the look-ups (`key_lookups`, `lake_lookups`)."""

from __future__ import annotations

from dataclasses import replace

from brokerd.wire.records import Record
from controlplane.domain.masking import RecordRenderer
from controlplane.selectors.messages import MessageRow, message_row
from weir_common.phrases import sentence


def lookup_row(
    partition: int, record: Record, key_size: int, value_size: int, renderer: RecordRenderer, note: str = ""
) -> MessageRow:
    """`key_size`, `value_size`: bytes of the whole fields, of which the record has the beginning; -1 for null. `note`: where the record was found."""
    row = message_row(partition, record, renderer)
    parts = (("key", record.key, key_size), ("value", record.value, value_size))
    cut = [
        sentence(
            "{name}: A look-up has the first {shown} of {size} bytes; the link of the offset shows more.",
            name=name,
            shown=f"{len(data):,}",
            size=f"{size:,}",
        )
        for name, data, size in parts
        if data is not None and size > len(data)
    ]
    notes = [*row.notes, *cut, *([note] if note else [])]
    return replace(row, key_bytes=max(0, key_size), value_bytes=max(0, value_size), notes=notes)
