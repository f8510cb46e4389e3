"""Producing and copying records: the requests, and the views that `TopicViewSet` mounts."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as drf

from controlplane.api import serializers
from controlplane.domain.produce import COUNT_MAX, SCHEMA_FORMAT, CopyTimestamp, InputFormat, NewRecord
from controlplane.services.record_encoding import RecordPart, SchemaChoice, encode

FORMATS = [(f.value, f.value) for f in InputFormat]
"""Formats without a schema."""
PRODUCE_FORMATS = [*FORMATS, (SCHEMA_FORMAT, SCHEMA_FORMAT)]
SUBJECT_CHARS_MAX = 1_000
"""Characters of a subject or of a message type: a topic has at most 249, and strategies put a name of a record behind it."""
FORMAT_HELP = (
    "msgpack: JSON that is encoded as MessagePack. schema: JSON that is encoded with a schema of the registry."
)


class HeaderBody(drf.Serializer[object]):
    name = drf.CharField(trim_whitespace=False)
    value = drf.CharField(default=None, allow_null=True, allow_blank=True, trim_whitespace=False, help_text="As text.")


def subject_field(part: RecordPart) -> drf.CharField:
    help_text = f"Format schema: the subject; empty: the topic's name with -{part}."
    return drf.CharField(default="", allow_blank=True, max_length=SUBJECT_CHARS_MAX, help_text=help_text)


def version_field() -> drf.IntegerField:
    return drf.IntegerField(default=None, allow_null=True, min_value=1, help_text="Format schema; null: the latest.")


def message_field() -> drf.CharField:
    help_text = "Message type of a Protobuf schema; empty: the first of the file."
    return drf.CharField(default="", allow_blank=True, max_length=SUBJECT_CHARS_MAX, help_text=help_text)


class ProduceBody(serializers.Comment):
    key = drf.CharField(default=None, allow_null=True, allow_blank=True, trim_whitespace=False)
    key_format = drf.ChoiceField(choices=PRODUCE_FORMATS, default=InputFormat.TEXT.value, help_text=FORMAT_HELP)
    value = drf.CharField(
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Null is a tombstone: compaction removes the key.",
    )
    value_format = drf.ChoiceField(choices=PRODUCE_FORMATS, default=InputFormat.TEXT.value, help_text=FORMAT_HELP)
    key_subject = subject_field(RecordPart.KEY)
    key_version = version_field()
    key_message = message_field()
    value_subject = subject_field(RecordPart.VALUE)
    value_version = version_field()
    value_message = message_field()
    headers = HeaderBody(many=True, default=list)
    partition = drf.IntegerField(
        default=None, allow_null=True, help_text="Null: by the hash of the key (murmur2), random without a key."
    )
    timestamp_ms = drf.IntegerField(default=None, allow_null=True, help_text="Milliseconds since 1970; null is now.")
    count = drf.IntegerField(default=1, help_text=f"Copies of the record, at most {COUNT_MAX}.")

    @staticmethod
    def record(topic: str, values: dict[str, Any]) -> NewRecord:
        """Raises Rejected for text that does not have its format or does not fit its schema."""

        def data(part: RecordPart) -> bytes | None:
            choice = SchemaChoice(*(values[f"{part}_{name}"] for name in ("subject", "version", "message")))
            text = values[part]
            return None if text is None else encode(topic, part, text, values[f"{part}_format"], choice)

        return NewRecord(
            data(RecordPart.KEY),
            data(RecordPart.VALUE),
            tuple((h["name"], None if h["value"] is None else h["value"].encode()) for h in values["headers"]),
            values["partition"],
            values["timestamp_ms"],
        )


class CopyRange(drf.Serializer[object]):
    source_topic = drf.CharField()
    source_partition = drf.IntegerField()
    first_offset = drf.IntegerField()
    last_offset = drf.IntegerField(help_text="The last offset of the range, included.")


class CopyBody(CopyRange, serializers.Comment):
    partition = drf.IntegerField(default=None, allow_null=True, help_text="Null: by the hash of the key.")
    timestamp = drf.ChoiceField(
        choices=[(t.value, t.value) for t in CopyTimestamp], default=CopyTimestamp.ORIGINAL.value
    )
