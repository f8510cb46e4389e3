"""Dead letters of a topic: the requests, and the views that `TopicViewSet` mounts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.delayed_messages import NO_LIST
from controlplane.api.produce import FORMATS, HeaderBody
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget
from controlplane.domain.produce import InputFormat, NewRecord, decode_input
from controlplane.domain.record_query import LIMIT_MAX, RecordQuery, StartPosition, partitions_of_text
from controlplane.selectors import dead_letters as selectors
from controlplane.services import dead_letters as services
from controlplane.services.dead_letter_batches import ResendResult

DEAD_LETTERS = serializers.shape(selectors.DeadLetterList)
SENT = serializers.shape(ResendResult)
TARGETS = [(t.value, t.value) for t in ResendTarget]
TARGET_HELP = (
    "topic: to the topic of the failed record, for all groups. retry: to the retry topic of that topic, for the group in the header x-retry-group, or for "
    "the share group that the dead letter names."
)


def _text(help_text: str) -> drf.CharField:
    return drf.CharField(default="", allow_blank=True, trim_whitespace=False, help_text=help_text)


class DeadLetterParameters(drf.Serializer[object]):
    group = _text("The consumer group or share group whose attempts failed.")
    error_contains = _text("Part of the error.")
    source_begins = _text(
        "The beginning of the first place of the record, of a share group the place of the failed record: topic-partition@offset."
    )
    key = _text("The key, as UTF-8 text.")
    key_contains = _text("Part of the key.")
    value_contains = _text("Part of the value.")
    json = _text('A JSON path with a condition: $.flight.carrier == "UA".')
    header = _text("name=value, or a name.")
    expression = _text("A filter expression in CEL: value.amount > 100.")
    partitions = _text("0,3,8-11; empty: all.")
    from_ms = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Oldest time of a dead letter.")
    until_ms = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Newest time of a dead letter.")
    limit = drf.IntegerField(default=50, help_text=f"Dead letters, at most {LIMIT_MAX}.")
    resume = _text("Continue: the token of the previous response.")


class DeadLetterPlace(drf.Serializer[object]):
    partition = drf.IntegerField(min_value=0)
    offset = drf.IntegerField(min_value=0, help_text="Offset in the dead letter topic.")


class SendBody(serializers.RequiredComment):
    places = DeadLetterPlace(many=True, help_text=f"At most {services.PLACES_MAX}.")
    target = drf.ChoiceField(choices=TARGETS, help_text=TARGET_HELP)


class SendMatchingBody(DeadLetterParameters, serializers.RequiredComment):
    target = drf.ChoiceField(choices=TARGETS, help_text=TARGET_HELP)


class SendEditedBody(DeadLetterPlace, serializers.RequiredComment):
    target = drf.ChoiceField(choices=TARGETS, help_text=TARGET_HELP)
    key = drf.CharField(allow_null=True, allow_blank=True, trim_whitespace=False)
    key_format = drf.ChoiceField(choices=FORMATS, default=InputFormat.TEXT.value)
    value = drf.CharField(allow_null=True, allow_blank=True, trim_whitespace=False, help_text="Null is a tombstone.")
    value_format = drf.ChoiceField(choices=FORMATS, default=InputFormat.TEXT.value)
    headers = HeaderBody(many=True, help_text="All headers; x-retry-group is needed for the target retry.")
    to_partition = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Null: by the key.")

    @staticmethod
    def record(v: dict[str, Any]) -> NewRecord:
        """Raises Rejected for text that does not have its format."""
        return NewRecord(
            None if v["key"] is None else decode_input(v["key"], InputFormat(v["key_format"]), "key"),
            None if v["value"] is None else decode_input(v["value"], InputFormat(v["value_format"]), "value"),
            tuple((h["name"], None if h["value"] is None else h["value"].encode()) for h in v["headers"]),
            v["to_partition"],
        )


class DeadLetterViews(RowViewSet):
    @extend_schema(parameters=[DeadLetterParameters], responses={200: DEAD_LETTERS})
    @action(detail=True, url_path="dead-letters", tag_of=None, **NO_LIST)
    def dead_letters(self, request: Request, name: str) -> Response:
        """Dead letters of a topic with `weir.retry.enable`, or in a dead letter topic of share groups, newest first, with the cause in their headers and
        whether they were sent again. A read is limited as one of messages; `resume` continues. Needs the permission read_records. Each read is recorded in the audit log."""
        query, resume = query_of(name, self.query(DeadLetterParameters))
        return Response(DEAD_LETTERS(_or_404(name, services.dead_letters(request.user, name, query, resume))).data)

    @extend_schema(request=SendBody, responses={200: SENT})
    @action(detail=True, methods=["post"], url_path="dead-letters/send", tag_of=None, **NO_LIST)
    def send_dead_letters(self, request: Request, name: str) -> Response:
        """Send dead letters again. Each is written to a target at most once, also when the request is repeated. Those of one partition are written
        all or none. Needs the permissions read_records and produce_records."""
        v = self.body(SendBody)
        places = [(p["partition"], p["offset"]) for p in v["places"]]
        target = ResendTarget(v["target"])
        made = services.send(request.user, name, places, target=target, comment=v["comment"])
        return Response(SENT(_or_404(name, made)).data)

    @extend_schema(request=SendMatchingBody, responses={200: SENT})
    @action(detail=True, methods=["post"], url_path="dead-letters/send-matching", tag_of=None, **NO_LIST)
    def send_matching_dead_letters(self, request: Request, name: str) -> Response:
        """Send the next `limit` dead letters that match the filter again, oldest first; `resume` continues."""
        v = self.body(SendMatchingBody)
        target, comment = ResendTarget(v.pop("target")), v.pop("comment")
        query, resume = query_of(name, v)
        made = services.send_matching(request.user, name, query, target=target, resume=resume, comment=comment)
        return Response(SENT(_or_404(name, made)).data)

    @extend_schema(request=SendEditedBody, responses={200: SENT})
    @action(detail=True, methods=["post"], url_path="dead-letters/send-edited", tag_of=None, **NO_LIST)
    def send_edited_dead_letter(self, request: Request, name: str) -> Response:
        """Send another key, value and headers in place of one dead letter."""
        v = self.body(SendEditedBody)
        made = services.send(
            request.user,
            name,
            [(v["partition"], v["offset"])],
            target=ResendTarget(v["target"]),
            edited=SendEditedBody.record(v),
            comment=v["comment"],
        )
        return Response(SENT(_or_404(name, made)).data)


def query_of(topic: str, requested: dict[str, Any]) -> tuple[RecordQuery, str]:
    """(query, resume token). The service names the topic of dead letters."""
    filters = DeadLetterFilters(**{f.name: requested[f.name] for f in fields(DeadLetterFilters)})
    query = RecordQuery(
        topic,
        partitions_of_text(requested["partitions"]),
        start=StartPosition.LATEST if requested["from_ms"] is None else StartPosition.TIMESTAMP,
        timestamp_ms=requested["from_ms"],
        limit=requested["limit"],
        filters=filters,
        all_partitions=True,
        until_ms=requested["until_ms"],
    )
    return query, requested["resume"]


def _or_404(topic: str, result: object) -> object:
    if result is None:
        raise Http404(
            f"Topic {topic!r} has no dead letters; weir.retry.enable=true creates their topic, and errors.deadletterqueue.group.enable=true is for those of share groups."
        )
    return result
