"""Delayed messages of a topic: the requests, and the views that `TopicViewSet` mounts."""

from __future__ import annotations

from typing import TypedDict

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.selectors import delayed_messages as selectors
from controlplane.services import delayed_messages as services


class NoList(TypedDict):
    """Arguments of `action` for a GET that returns no page of rows."""

    pagination_class: None
    filterset_class: None


NO_LIST: NoList = {"pagination_class": None, "filterset_class": None}
CANCELLED = serializers.shape(services.CancelResult)
DELAYED_MESSAGES = serializers.shape(selectors.DelayedMessages)
PENDING = serializers.shape(selectors.PendingList)
PREVIEW = serializers.shape(services.CancelPreview)


class PendingParameters(serializers.OneKey):
    partition = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Only this partition.")
    from_ms = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Earliest delivery time.")
    to_ms = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Delivery times below this one.")
    limit = drf.IntegerField(default=selectors.ROWS_FIRST, help_text=f"Rows, at most {selectors.ROWS_MAX}.")
    token = drf.CharField(default="", allow_blank=True, help_text="Continue: the token of the previous response.")


class PendingPlace(drf.Serializer[object]):
    partition = drf.IntegerField(min_value=0)
    offset = drf.IntegerField(min_value=0, help_text="Offset in the front topic.")


class CancelBody(PendingPlace, serializers.RequiredComment):
    pass


class DelayedMessageViews(RowViewSet):
    @extend_schema(responses={200: DELAYED_MESSAGES})
    @action(detail=True, url_path="delayed-messages", tag_of=None, **NO_LIST)
    def delayed_messages(self, request: Request, name: str) -> Response:
        """Pending delayed messages of a topic with `weir.delay.enable`: their number and earliest time in each partition, and a histogram of their
        delivery times. `missing` names the partitions whose leader did not respond."""
        return Response(DELAYED_MESSAGES(_or_404(name, selectors.delayed_messages(name))).data)

    @extend_schema(parameters=[PendingParameters], responses={200: PENDING})
    @action(detail=True, url_path="delayed-messages/pending", tag_of=None, **NO_LIST)
    def pending_messages(self, request: Request, name: str) -> Response:
        """Pending delayed messages in the order of delivery, by key or by delivery time; `token` continues. A look-up by key needs the permission
        read_records."""
        requested = self.query(PendingParameters)
        text, as_hex = requested.pop("key"), requested.pop("key_hex")
        key = text.encode() if text is not None else None if as_hex is None else bytes.fromhex(as_hex)
        return Response(PENDING(_or_404(name, services.look_up(request.user, name, key=key, **requested))).data)

    @extend_schema(request=PendingPlace, responses={200: PREVIEW})
    @action(detail=True, methods=["post"], url_path="delayed-messages/cancel/preview", tag_of=None, **NO_LIST)
    def preview_cancel(self, request: Request, name: str) -> Response:
        """The effect of a cancellation: the delivery time, and the number of pending records with the same key. Nothing is written."""
        v = self.body(PendingPlace)
        return Response(PREVIEW(_or_404(name, services.preview_cancel(request.user, name, **v))).data)

    @extend_schema(request=CancelBody, responses={200: CANCELLED})
    @action(detail=True, methods=["post"], url_path="delayed-messages/cancel", tag_of=None, **NO_LIST)
    def cancel_message(self, request: Request, name: str) -> Response:
        """Cancel the delivery of a record: a tombstone with its key is written to its partition of the front topic. It cancels each pending record
        with this key in this partition. `state` says whether the leader has confirmed it. Needs the permission produce_records."""
        v = self.body(CancelBody)
        return Response(CANCELLED(_or_404(name, services.cancel(request.user, name, **v))).data)


def _or_404(topic: str, result: object) -> object:
    if result is None:
        raise Http404(f"Topic {topic!r} has no delayed messages; weir.delay.enable=true enables them.")
    return result
