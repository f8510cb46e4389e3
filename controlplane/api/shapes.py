"""Serializers made from the selectors' rows, and those of requests. Law: an answer has exactly the fields of its row, so that the schema
and the selectors cannot drift apart. Called by the views and by the schema."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from rest_framework import serializers

_SIMPLE: dict[Any, type[serializers.Field[Any, Any, Any, Any]]] = {
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    str: serializers.CharField,
    datetime: serializers.DateTimeField,
    UUID: serializers.UUIDField,
}


@cache
def shape(row: type) -> type[serializers.Serializer[Any]]:
    """The serializer of a selector's dataclass, named after it."""
    hints = typing.get_type_hints(row)
    fields = {f.name: _field(hints[f.name]) for f in dataclasses.fields(row)}
    return type(row.__name__.removesuffix("Row"), (serializers.Serializer,), {**fields, "__doc__": row.__doc__})


def _field(hint: Any) -> serializers.Field[Any, Any, Any, Any]:
    null = False
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [a for a in typing.get_args(hint) if a is not type(None)]
        null, hint = True, options[0]
        origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return shape(hint)(allow_null=null)
    if origin is list:
        inner = typing.get_args(hint)[0]
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            return shape(inner)(many=True)
        return serializers.ListField(child=_field(inner), allow_null=null)
    if origin is tuple:
        return serializers.ListField(child=_field(typing.get_args(hint)[0]), allow_null=null)
    if hint in _SIMPLE:
        return _SIMPLE[hint](allow_null=null)
    return serializers.JSONField(allow_null=null)


@cache
def page_of(row: type) -> type[serializers.Serializer[Any]]:
    """The serializer of a `Page` of these rows."""
    return type(
        f"{row.__name__.removesuffix('Row')}Page",
        (serializers.Serializer,),
        {
            "rows": shape(row)(many=True),
            "total": serializers.IntegerField(help_text="Rows over all pages."),
            "page": serializers.IntegerField(),
            "pages": serializers.IntegerField(),
            "per_page": serializers.IntegerField(),
            "sort": serializers.CharField(),
            "query": serializers.CharField(allow_blank=True),
        },
    )


class Error(serializers.Serializer[Any]):
    reason = serializers.CharField(help_text="What was refused, why, and what would make it possible.")
    field = serializers.CharField(help_text="The input at fault, empty when the cluster's state is.", allow_blank=True)


class ListQuery(serializers.Serializer[Any]):
    query = serializers.CharField(default="", allow_blank=True, help_text="Part of a name.")
    sort = serializers.CharField(default="", allow_blank=True, help_text="A column, '-' in front for descending.")
    page = serializers.IntegerField(default=1, min_value=1)
    per_page = serializers.IntegerField(default=50, min_value=1, max_value=500)


class Why(serializers.Serializer[Any]):
    why = serializers.CharField(default="", allow_blank=True, help_text="Kept with the change.")


class Reason(serializers.Serializer[Any]):
    """Of an act that copies or destroys data: it is refused without."""

    why = serializers.CharField(
        help_text="Kept with the change.",
        error_messages=dict.fromkeys(("required", "blank", "null"), "Give a reason: it is kept in the audit."),
    )


class TopicQuery(ListQuery):
    internal = serializers.BooleanField(default=False, help_text="Internal topics too.")
    only = serializers.ChoiceField(choices=["", "problems", "moving", "drift"], default="", allow_blank=True)


class TopicCreate(Why):
    name = serializers.CharField(max_length=1000)
    partitions = serializers.IntegerField(default=1)
    replication_factor = serializers.IntegerField(default=None, allow_null=True)
    configs = serializers.DictField(child=serializers.CharField(allow_blank=True), default=dict)
    assignment = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()), default=None, allow_null=True,
        help_text="{partition: [broker, ...]}, the preferred leader first.",
    )  # fmt: skip


class TopicAlter(Why):
    partitions = serializers.IntegerField(default=None, allow_null=True)
    configs = serializers.DictField(
        child=serializers.CharField(allow_blank=True, allow_null=True), default=dict,
        help_text="Only what is named changes; null returns to the default.",
    )  # fmt: skip
    assignment = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()), default=None, allow_null=True,
        help_text="Places the added partitions.",
    )  # fmt: skip
    if_generation = serializers.IntegerField(default=None, allow_null=True, help_text="Refuse when it changed since.")


class PartitionQuery(ListQuery):
    only = serializers.ChoiceField(choices=["", "problems", "offline", "moving"], default="", allow_blank=True)
    topic = serializers.CharField(default="", allow_blank=True)
    broker = serializers.IntegerField(default=None, allow_null=True)


class GroupQuery(ListQuery):
    topic = serializers.CharField(default="", allow_blank=True)


class MessageQuery(serializers.Serializer[Any]):
    start = serializers.ChoiceField(choices=["newest", "oldest", "offset", "time"], default="newest")
    offset = serializers.IntegerField(default=None, allow_null=True)
    timestamp_ms = serializers.IntegerField(default=None, allow_null=True)
    limit = serializers.IntegerField(default=50)


class AclCreate(Why):
    resource_type = serializers.CharField()
    resource_name = serializers.CharField()
    pattern_type = serializers.CharField(default="literal")
    principal = serializers.CharField()
    host = serializers.CharField(default="*")
    operation = serializers.CharField()
    permission = serializers.CharField()


class MoveCreate(Why):
    scope = serializers.JSONField(
        help_text='{"kind": "drain", "broker": 2}, {"kind": "drain", "rack": "r1"}, {"kind": "partitions", "partitions": [...]}, ..., or Kafka\'s own {"version": 1, "partitions": [...]}'
    )
    parts_in_flight_max = serializers.IntegerField(default=8, help_text="Partitions copied at a time.")
    parts_per_broker_max = serializers.IntegerField(default=4, help_text="Copies at a time that occupy one broker.")
    throttle_bytes_per_s = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Bytes per second and broker; null for none. Never holds back replicas in sync.",
    )
    mode = serializers.ChoiceField(
        default="copy",
        choices=["copy", "tail"],
        help_text="copy: all records travel. tail: none that is there already; it ends when retention has deleted those, or by a cut.",
    )
    compare = serializers.BooleanField(
        default=True,
        help_text="Old copies go only once all copies were compared and are equal (in mode tail always). Brokers must answer consumers as followers (KIP-392).",
    )
    deadline_hours = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Mode tail: so many hours after its start a cut is asked for (cause cut_due), where retention has not passed by then. With one, a topic that keeps everything may move so, too.",
    )
    handover = serializers.ChoiceField(
        default="",
        choices=["", "early"],
        help_text="Mode tail: early hands leadership over as soon as the new copies are in step. The old replicas keep what is older and are read through the new leader until retention has passed it.",
    )
    override = serializers.BooleanField(
        default=False,
        help_text="Plan it although safety refuses it: it begins only when a second person approves (POST /proposals, kind move.approve).",
    )
    dry = serializers.BooleanField(default=False, help_text="Only show what would be planned.")
    start = serializers.BooleanField(default=False, help_text="Start at once.")

    def validate_scope(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise serializers.ValidationError("An object with a kind is needed.")
        return value


class PlanCreate(Reason):
    name = serializers.CharField(default="", allow_blank=True, max_length=200)
    scope = serializers.JSONField(help_text="As of a move; Kafka's own file of a reassignment, too, of any length.")
    override = serializers.BooleanField(default=False, help_text="Keep it although safety refuses it.")

    def validate_scope(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise serializers.ValidationError("An object with a kind is needed.")
        return value


class PlanQuery(ListQuery):
    dropped = serializers.BooleanField(default=False, help_text="Those that were dropped, instead.")


class PlanFileQuery(serializers.Serializer[Any]):
    previous = serializers.BooleanField(default=False, help_text="What was when the plan was made.")


class PlanDifferenceQuery(serializers.Serializer[Any]):
    other = serializers.IntegerField(default=None, allow_null=True, help_text="Another plan's number; none: now.")


class PlanApprove(Reason):
    digest = serializers.CharField(help_text="Of the plan that was read.")


class PlanMove(Why):
    digest = serializers.CharField(help_text="Of the plan that was read.")
    parts_in_flight_max = serializers.IntegerField(default=8)
    parts_per_broker_max = serializers.IntegerField(default=4)
    throttle_bytes_per_s = serializers.IntegerField(default=None, allow_null=True)
    compare = serializers.BooleanField(default=True, help_text="Old copies go only once all are equal.")
    window = serializers.DictField(default=None, allow_null=True, help_text="See moves/<id>/schedule.")
    start = serializers.BooleanField(default=False, help_text="Start at once.")


class MoveSchedule(Why):
    window = serializers.DictField(
        allow_null=True,
        help_text='{"opens": "22:00", "stop_by": "05:30", "days": [0, 1]} daily in UTC, or {"from": .., "stop_by": ..} once; null: always.',
    )


class MoveThrottle(Why):
    throttle_bytes_per_s = serializers.IntegerField(
        default=None, allow_null=True, help_text="Bytes per second and broker from now on; null for none."
    )
    adaptive = serializers.DictField(
        child=serializers.IntegerField(), default=None, allow_null=True,
        help_text='Instead: {"cap": .., "floor": ..}, between which it follows the producers\' p99. The floor may be left out.',
    )  # fmt: skip

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "throttle_bytes_per_s" not in self.initial_data and attrs["adaptive"] is None:
            raise serializers.ValidationError(
                {"throttle_bytes_per_s": "Give a rate, null for none, or adaptive bounds."}
            )
        return attrs


class DrainStart(Reason):
    throttle_bytes_per_s = serializers.IntegerField(
        default=None, allow_null=True, help_text="Bytes per second and broker; null for none."
    )
    parts_in_flight_max = serializers.IntegerField(default=8, help_text="Partitions copied at a time.")


class ProposalAsk(serializers.Serializer[Any]):
    goals = serializers.ListField(
        child=serializers.CharField(), default=None, allow_null=True,
        help_text="Out of rack, disk, replicas, leaders, traffic; the most important first; null for all, in this order.",
    )  # fmt: skip
    tolerance = serializers.FloatField(
        default=None, allow_null=True, help_text="Share of the mean by which a broker may lie beside it; 0.1."
    )
    limit = serializers.IntegerField(
        default=500, min_value=0, help_text="Changes to spell out; their number is told anyway."
    )


class RestartCreate(Reason):
    brokers = serializers.ListField(
        child=serializers.IntegerField(), default=None, allow_null=True,
        help_text="In this order; null for all that are alive.",
    )  # fmt: skip


class WorkingQuery(ListQuery):
    working = serializers.BooleanField(default=None, allow_null=True)


class PartQuery(ListQuery):
    only = serializers.CharField(default="", allow_blank=True)


class AlertQuery(ListQuery):
    ended = serializers.BooleanField(default=False, help_text="Those that ended within the last week, instead.")


class MetricsQuery(serializers.Serializer[Any]):
    topics = serializers.BooleanField(default=False, help_text="Three series per topic, too.")


class FindingQuery(ListQuery):
    open = serializers.BooleanField(default=False, help_text="Only what brokers still tell of.")
    topic = serializers.CharField(default="", allow_blank=True)
    partition = serializers.IntegerField(default=None, allow_null=True)


class RecoveryCreate(Reason):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    broker_id = serializers.IntegerField()


class ProposalQuery(ListQuery):
    state = serializers.CharField(default="", allow_blank=True, help_text="open, decided, or one state.")


class ProposalCreate(Reason):
    kind = serializers.CharField(help_text="move.approve, move.cut, election.unclean")
    target = serializers.CharField(help_text="A move's number, topic-partition: what the kind is about.")
    arguments = serializers.DictField(
        default=dict,
        help_text='move.approve: {"start": true} begins it at once. move.cut: {"confirm": the topic\'s name, or `move N` where it has several}.',
    )
    shown_hash = serializers.CharField(
        default="", allow_blank=True, help_text="Refuse when it would be shown differently now."
    )


class ChangeQuery(ListQuery):
    object_kind = serializers.CharField(default="", allow_blank=True)
    object_name = serializers.CharField(default="", allow_blank=True)
    who = serializers.CharField(default="", allow_blank=True)
    outcome = serializers.CharField(default="", allow_blank=True)


class ArchiveCreate(Why):
    topics = serializers.ListField(child=serializers.CharField())
