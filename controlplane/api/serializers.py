"""Serializers generated from the selectors' rows, and serializers of requests. Invariant: a response has exactly the fields of its row, so the schema
and the selectors cannot diverge."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from rest_framework import serializers

from controlplane.domain.formats import Format
from controlplane.domain.move_states import Handover, MoveMode
from controlplane.domain.record_query import LIMIT_MAX, StartPosition
from controlplane.domain.scope import Scope
from controlplane.selectors.common import as_dict
from controlplane.selectors.key_lookups import SCAN_BYTES

_SIMPLE: dict[Any, type[serializers.Field[Any, Any, Any, Any]]] = {
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    str: serializers.CharField,
    datetime: serializers.DateTimeField,
    UUID: serializers.UUIDField,
}


class RowSerializer(serializers.Serializer[object]):
    """Output of a row. Its fields are for the schema: the values of a row are plain JSON already, and a page has up to 500 of them."""

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return as_dict(instance)


@cache
def shape(row: type) -> type[RowSerializer]:
    """The serializer of a selector's dataclass, named after it."""
    hints = typing.get_type_hints(row)
    fields = {f.name: field_of(hints[f.name]) for f in dataclasses.fields(row)}
    return type(row.__name__.removesuffix("Row"), (RowSerializer,), {**fields, "__doc__": row.__doc__})


def field_of(hint: Any) -> serializers.Field[Any, Any, Any, Any]:
    """The field of a type."""
    null = False
    origin = typing.get_origin(hint)
    if hint == Scope:
        return serializers.JSONField(help_text="An object with a kind and the fields of that kind, as in a request.")
    if origin in (types.UnionType, typing.Union):
        options = [a for a in typing.get_args(hint) if a is not type(None)]
        null, hint = True, options[0]
        origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return shape(hint)(allow_null=null)
    if origin is list:
        inner = typing.get_args(hint)[0]
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            return shape(inner)(many=True, allow_null=null)
        return serializers.ListField(child=field_of(inner), allow_null=null)
    if origin is tuple:
        return serializers.ListField(child=field_of(typing.get_args(hint)[0]), allow_null=null)
    if hint in _SIMPLE:
        return _SIMPLE[hint](allow_null=null)
    return serializers.JSONField(allow_null=null)


class Comment(serializers.Serializer[object]):
    comment = serializers.CharField(default="", allow_blank=True, help_text="Reason, stored with the change.")


class RequiredComment(serializers.Serializer[object]):
    """A request that copies or deletes data needs a reason, `comment`. Without it the request is rejected."""

    comment = serializers.CharField(
        help_text="Reason, stored with the change.",
        error_messages=dict.fromkeys(("required", "blank", "null"), "Give a reason; it is recorded in the audit log."),
    )


class TopicCreate(Comment):
    name = serializers.CharField(max_length=1000)
    partitions = serializers.IntegerField(default=1)
    replication_factor = serializers.IntegerField(default=None, allow_null=True)
    configs = serializers.DictField(child=serializers.CharField(allow_blank=True), default=dict)
    assignment = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        default=None,
        allow_null=True,
        help_text="{partition: [broker, ...]}, the preferred leader first.",
    )


class TopicAlter(Comment):
    partitions = serializers.IntegerField(default=None, allow_null=True)
    configs = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True),
        default=dict,
        help_text="Only these configs change; null returns a config to its default.",
    )
    assignment = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        default=None,
        allow_null=True,
        help_text="Places the added partitions.",
    )
    if_generation = serializers.IntegerField(
        default=None, allow_null=True, help_text="Reject the change if the topic has another generation."
    )


class MessageQuery(serializers.Serializer[object]):
    """The start of a read, its filters, and the token of an unfinished read. All filters must match."""

    start = serializers.ChoiceField(
        choices=[(s.value, s.value) for s in StartPosition],
        default=StartPosition.LATEST.value,
        help_text="latest: the newest records, newest first. minutes: that many minutes ago. The others read forward.",
    )
    offset = serializers.IntegerField(
        default=None, allow_null=True, help_text="For start=offset: the first offset, in each partition."
    )
    timestamp_ms = serializers.IntegerField(
        default=None, allow_null=True, help_text="For start=timestamp: the earliest timestamp, ms since 1970."
    )
    minutes = serializers.IntegerField(
        default=None, allow_null=True, help_text="For start=minutes: begin this many minutes before now."
    )
    until_ms = serializers.IntegerField(default=None, allow_null=True, help_text="Largest timestamp, ms since 1970.")
    limit = serializers.IntegerField(default=50, help_text=f"Records, at most {LIMIT_MAX}.")
    key = serializers.CharField(
        default="",
        trim_whitespace=False,
        help_text="Key equals. Reads only the partitions that the default partitioners choose (`key_partitions`).",
    )
    all_partitions = serializers.BooleanField(default=False, help_text="Read all partitions also with a key.")
    key_contains = serializers.CharField(default="", trim_whitespace=False)
    value_contains = serializers.CharField(default="", trim_whitespace=False)
    json = serializers.CharField(
        default="",
        help_text='A comparison of the value as JSON: $.flight.carrier == "UA". Operators: == != >= <= > < contains.',
    )
    header = serializers.CharField(default="", trim_whitespace=False, help_text="name=value, or a name.")
    expression = serializers.CharField(
        default="",
        help_text='A filter expression in CEL over key, value, headers, partition, offset, timestamp: value.amount > 100 && headers["region"] == "eu".',
    )
    key_format = serializers.ChoiceField(choices=[(f.value, f.value) for f in Format], default=Format.AUTO.value)
    value_format = serializers.ChoiceField(choices=[(f.value, f.value) for f in Format], default=Format.AUTO.value)
    resume = serializers.CharField(default="", help_text="`resume` of the response before, with the same query.")


class TopicMessageQuery(MessageQuery):
    partitions = serializers.CharField(default="", help_text="Partitions, for example 0,3,8-11. Default: all.")


class OneKey(serializers.Serializer[object]):
    """A record key as text or as hexadecimal bytes."""

    key = serializers.CharField(
        default=None, allow_null=True, allow_blank=True, trim_whitespace=False, help_text="The key, as UTF-8 text."
    )
    key_hex = serializers.RegexField(
        r"^([0-9a-fA-F]{2})*$",
        default=None,
        allow_null=True,
        help_text="The key, as hexadecimal bytes, instead of `key`.",
    )

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if attrs["key"] is not None and attrs["key_hex"] is not None:
            raise serializers.ValidationError({"key": ["Give one of key and key_hex."]})
        return attrs


class KeyLookupQuery(OneKey):
    header = serializers.CharField(
        default="", allow_blank=True, help_text="Search for records with `key` as a value of this record header."
    )
    partition = serializers.IntegerField(default=None, allow_null=True, min_value=0, help_text="Only this partition.")
    from_ms = serializers.IntegerField(default=None, allow_null=True, min_value=0, help_text="Oldest timestamp.")
    to_ms = serializers.IntegerField(default=None, allow_null=True, min_value=0, help_text="Newest timestamp.")
    limit = serializers.IntegerField(default=32)
    bytes_max = serializers.IntegerField(default=SCAN_BYTES, help_text="Bytes of log to read at most.")
    lake = serializers.BooleanField(
        default=False,
        help_text="Search for records below the log start offsets in the lake, after the brokers have searched theirs.",
    )
    token = serializers.CharField(
        default="", allow_blank=True, help_text="Continue: the token of the previous response."
    )
    key_format = serializers.ChoiceField(choices=[(f.value, f.value) for f in Format], default=Format.AUTO.value)
    value_format = serializers.ChoiceField(choices=[(f.value, f.value) for f in Format], default=Format.AUTO.value)

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if attrs["key"] is None and attrs["key_hex"] is None:
            raise serializers.ValidationError({"key": ["Give one of key and key_hex."]})
        return super().validate(attrs)


class AclCreate(Comment):
    resource_type = serializers.CharField()
    resource_name = serializers.CharField()
    pattern_type = serializers.CharField(default="literal")
    principal = serializers.CharField()
    host = serializers.CharField(default="*")
    operation = serializers.CharField()
    permission = serializers.CharField()


class MoveCreate(Comment):
    scope = serializers.JSONField(
        help_text='{"kind": "drain", "broker": 2}, {"kind": "drain", "rack": "r1"}, {"kind": "partitions", "partitions": [...]}, ..., or Kafka\'s own {"version": 1, "partitions": [...]}'
    )
    parts_in_flight_max = serializers.IntegerField(default=8, help_text="Partitions copied at a time.")
    parts_per_broker_max = serializers.IntegerField(default=4, help_text="Copies at a time that occupy one broker.")
    throttle_bytes_per_s = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Bytes per second and broker; null for none. It never slows replicas that are in sync.",
    )
    mode = serializers.ChoiceField(
        default="copy",
        choices=list(MoveMode),
        help_text="copy: all records are copied. tail: only records that are written from now on; the move ends when retention has deleted the old ones, or when an operator truncates them.",
    )
    compare = serializers.BooleanField(
        default=True,
        help_text="Old replicas are deleted only after all replicas were compared and are equal (in mode tail always). Brokers must answer consumers as followers (KIP-392).",
    )
    deadline_hours = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Mode tail: hours after its start at which the move waits for a truncation (cause deadline_passed), if retention has not deleted the old records by then. With a deadline, a topic that keeps all records can use mode tail too.",
    )
    handover = serializers.ChoiceField(
        default="",
        choices=list(Handover),
        help_text="Mode tail: with early, leadership is handed over as soon as the new replicas are in sync. The old replicas keep the older records, which are read through the new leader until retention has deleted them.",
    )
    override = serializers.BooleanField(
        default=False,
        help_text="Plan the move although it violates a safety rule. It begins only after a second person has approved it (POST /proposals, kind move.approve).",
    )
    dry = serializers.BooleanField(default=False, help_text="Only show what would be planned.")
    start = serializers.BooleanField(default=False, help_text="Start immediately.")


class PlanCreate(RequiredComment):
    name = serializers.CharField(default="", allow_blank=True, max_length=200)
    scope = serializers.JSONField(
        help_text="The scope of a move, or the content of Kafka's reassignment file, of any length."
    )
    override = serializers.BooleanField(default=False, help_text="Store the plan although it violates a safety rule.")


class PlanFileQuery(serializers.Serializer[object]):
    previous = serializers.BooleanField(default=False, help_text="The placement at the time when the plan was made.")


class PlanDifferenceQuery(serializers.Serializer[object]):
    other = serializers.IntegerField(
        default=None, allow_null=True, help_text="ID of another plan. Without it: the present placement."
    )


class PlanApprove(RequiredComment):
    digest = serializers.CharField(help_text="Digest of the plan that was read.")


WINDOW = '{"opens": "22:00", "stop_by": "05:30", "days": [0, 1]} daily in UTC, or {"from": .., "stop_by": ..} once; null: always.'


class PlanMove(Comment):
    digest = serializers.CharField(help_text="Digest of the plan that was read.")
    parts_in_flight_max = serializers.IntegerField(default=8)
    parts_per_broker_max = serializers.IntegerField(default=4)
    throttle_bytes_per_s = serializers.IntegerField(default=None, allow_null=True)
    compare = serializers.BooleanField(default=True, help_text="Delete old replicas only after all replicas are equal.")
    window = serializers.DictField(default=None, allow_null=True, help_text=WINDOW)
    start = serializers.BooleanField(default=False, help_text="Start immediately.")


class MoveSchedule(Comment):
    window = serializers.DictField(
        allow_null=True,
        help_text=WINDOW,
    )


class MoveThrottle(Comment):
    throttle_bytes_per_s = serializers.IntegerField(
        default=None, allow_null=True, help_text="Bytes per second and broker from now on; null for none."
    )
    adaptive = serializers.DictField(
        child=serializers.IntegerField(),
        default=None,
        allow_null=True,
        help_text='Instead of a fixed rate: {"cap": .., "floor": ..}. The rate follows the producers\' p99 between both. The floor is optional.',
    )

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if "throttle_bytes_per_s" not in self.initial_data and attrs["adaptive"] is None:
            raise serializers.ValidationError(
                {"throttle_bytes_per_s": "Give a rate, null for none, or adaptive bounds."}
            )
        return attrs


class MoveEnd(RequiredComment):
    uncordon = serializers.BooleanField(
        default=False, help_text="For a drain: also uncordon the broker and restore its leadership."
    )


class DrainStart(RequiredComment):
    throttle_bytes_per_s = serializers.IntegerField(
        default=None, allow_null=True, help_text="Bytes per second and broker; null for none."
    )
    parts_in_flight_max = serializers.IntegerField(default=8, help_text="Partitions copied at a time.")


class ProposalAsk(serializers.Serializer[object]):
    goals = serializers.ListField(
        child=serializers.CharField(),
        default=None,
        allow_null=True,
        help_text="A selection of rack, disk, replicas, leaders, traffic, the most important first; null: all, in this order.",
    )
    tolerance = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="Permitted deviation of a broker from the mean, as a share of the mean. Default: 0.1.",
    )
    limit = serializers.IntegerField(
        default=500, min_value=0, help_text="Maximum number of listed changes. The response always has their total."
    )


class BrokerConfigAlter(RequiredComment):
    configs = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True),
        help_text="Only these settings change; null removes the dynamic value.",
    )
    cluster_wide = serializers.BooleanField(default=False, help_text="For all brokers instead of this one.")


class GroupConfigAlter(RequiredComment):
    configs = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True),
        help_text="Only these configs change; null removes the value of the group.",
    )


class RestartCreate(RequiredComment):
    brokers = serializers.ListField(
        child=serializers.IntegerField(),
        default=None,
        allow_null=True,
        help_text="Brokers to restart, in this order; null: all alive brokers.",
    )


class MetricsQuery(serializers.Serializer[object]):
    topics = serializers.BooleanField(default=False, help_text="Include three series per topic.")


class RecoveryCreate(RequiredComment):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    broker_id = serializers.IntegerField()


class ProposalCreate(RequiredComment):
    kind = serializers.CharField(
        help_text="move.approve, move.delete_records, election.unclean, transaction.abort, transaction.fence, half.commit, half.rollback"
    )
    target = serializers.CharField(
        help_text="The object of the request: ID of a move, topic-partition, topic-partition@offset, or a transactional id."
    )
    arguments = serializers.DictField(
        default=dict,
        help_text='move.approve: {"start": true} starts it immediately. move.delete_records: {"confirm": the topic\'s name, or `move N` where it has several}.',
    )
    shown_hash = serializers.CharField(
        default="",
        allow_blank=True,
        help_text="Hash of the preview that was read. Reject the request if the preview would differ now.",
    )


class SparkJobCreate(Comment):
    name = serializers.CharField(max_length=100)
    kind = serializers.CharField(max_length=40)
    parameters = serializers.DictField(default=dict)
    schedule = serializers.CharField(default="", allow_blank=True, max_length=100)
    start = serializers.BooleanField(default=True)


class SparkJobSchedule(Comment):
    schedule = serializers.CharField(allow_blank=True, max_length=100)


class ArchiveCreate(Comment):
    topics = serializers.ListField(child=serializers.CharField())
