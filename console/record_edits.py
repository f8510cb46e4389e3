"""A read record as the first content of the Produce form, to write a corrected copy.

Invariant: a part that the reader sees changed or incomplete (masked, cut, in a format that the form cannot write) is left empty, and a sentence
says so: a copy must not silently differ from its record. Does not contain: the read and its permission (`console.views.produce`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from controlplane.domain.formats import NULL, TEXT_CHARS_MAX, Format
from controlplane.domain.produce import SCHEMA_FORMAT, InputFormat
from controlplane.selectors.messages import MessageRow

WRITTEN_AS: dict[str, str] = {
    Format.TEXT: InputFormat.TEXT,
    Format.JSON: InputFormat.JSON,
    Format.HEX: InputFormat.HEX,
    Format.MSGPACK: InputFormat.MSGPACK,
    Format.AVRO: SCHEMA_FORMAT,
    Format.PROTOBUF: SCHEMA_FORMAT,
    Format.JSON_SCHEMA: SCHEMA_FORMAT,
}
"""Format of a read key or value -> format of the form that writes it."""


@dataclass(slots=True)
class EditedCopy:
    """`initial`: fields of the Produce form. `left_out`: sentences about parts of the record that are not in it."""

    initial: dict[str, object]
    left_out: list[str] = field(default_factory=list)


def edited_copy(row: MessageRow, *, masked: bool, has_registry: bool) -> EditedCopy:
    """`masked`: a masking rule applies to this reader and topic: nothing but the partition is filled in."""
    copy = EditedCopy({"partition": row.partition, "count": 1})
    if masked:
        copy.left_out.append(_("Masking rules apply to this topic for you: the record is not filled in."))
        return copy
    for name, text, read_format in (("key", row.key, row.key_format), ("value", row.value, row.value_format)):
        written_as = WRITTEN_AS.get(read_format, "")
        if read_format == NULL:
            copy.initial["tombstone"] = copy.initial.get("tombstone", False) or name == "value"
        elif not written_as or (written_as == SCHEMA_FORMAT and not has_registry) or len(text or "") >= TEXT_CHARS_MAX:
            copy.left_out.append(
                _("The key cannot be edited here: it is too long, or in a format that this form cannot write.")
                if name == "key"
                else _("The value cannot be edited here: it is too long, or in a format that this form cannot write.")
            )
        else:
            copy.initial |= {name: text, f"{name}_format": str(written_as)}
    _headers(row, copy)
    return copy


def _headers(row: MessageRow, copy: EditedCopy) -> None:
    lines, lost = [], []
    for name, value in row.headers:
        line = name if value is None else f"{name}: {value}"
        as_text = ":" not in name and f"header {name}" not in row.binary and line == line.strip()
        if as_text and len(line.splitlines()) == 1:
            lines.append(line)
        else:
            lost.append(name)
    copy.initial["headers"] = "\n".join(lines)
    if lost:
        copy.left_out.append(_("Headers without a text form are omitted: {names}.").format(names=_(", ").join(lost)))
