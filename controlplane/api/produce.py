"""Producing and copying records: the requests, and the views that `TopicViewSet` mounts."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as drf

from controlplane.api import serializers
from controlplane.domain.produce import COUNT_MAX, CopyTimestamp, InputFormat, NewRecord, decode_input

FORMATS = [(f.value, f.value) for f in InputFormat]


class HeaderBody(drf.Serializer[Any]):
    name = drf.CharField(trim_whitespace=False)
    value = drf.CharField(default=None, allow_null=True, allow_blank=True, trim_whitespace=False, help_text="Text.")


class ProduceBody(serializers.Comment):
    key = drf.CharField(default=None, allow_null=True, allow_blank=True, trim_whitespace=False)
    key_format = drf.ChoiceField(choices=FORMATS, default=InputFormat.TEXT.value)
    value = drf.CharField(
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Null is a tombstone: compaction removes the key.",
    )
    value_format = drf.ChoiceField(choices=FORMATS, default=InputFormat.TEXT.value)
    headers = HeaderBody(many=True, default=list)
    partition = drf.IntegerField(
        default=None, allow_null=True, help_text="Null: by the hash of the key (murmur2), random without a key."
    )
    timestamp_ms = drf.IntegerField(default=None, allow_null=True, help_text="Milliseconds since 1970; null is now.")
    count = drf.IntegerField(default=1, help_text=f"Copies of the record, at most {COUNT_MAX}.")

    @staticmethod
    def record(values: dict[str, Any]) -> NewRecord:
        """Raises Rejected for text that does not have its format."""
        key, value = values["key"], values["value"]
        return NewRecord(
            None if key is None else decode_input(key, InputFormat(values["key_format"]), "key"),
            None if value is None else decode_input(value, InputFormat(values["value_format"]), "value"),
            tuple((h["name"], None if h["value"] is None else h["value"].encode()) for h in values["headers"]),
            values["partition"],
            values["timestamp_ms"],
        )


class CopyRange(drf.Serializer[Any]):
    source_topic = drf.CharField()
    source_partition = drf.IntegerField()
    first_offset = drf.IntegerField()
    last_offset = drf.IntegerField(help_text="Included.")


class CopyBody(CopyRange, serializers.Comment):
    partition = drf.IntegerField(default=None, allow_null=True, help_text="Null: by the hash of the key.")
    timestamp = drf.ChoiceField(
        choices=[(t.value, t.value) for t in CopyTimestamp], default=CopyTimestamp.ORIGINAL.value
    )
