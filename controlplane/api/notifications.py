"""Notification channels: list, create, change, delete, test; deliveries. Only administrators change channels."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.notification import ChannelKind
from controlplane.models import NotificationChannel, NotificationDelivery
from controlplane.selectors import entity_tags, notifications
from controlplane.services import notification_channels as services

CHANNEL = serializers.shape(notifications.NotificationChannelRow)
DELIVERY = serializers.shape(notifications.NotificationDeliveryRow)


class NotificationChannelAlter(serializers.Comment):
    """A channel for notifications. A change sets only the given fields."""

    name = drf.CharField(max_length=services.NAME_CHARS_MAX, required=False)
    enabled = drf.BooleanField(required=False)
    severity_min = drf.ChoiceField(
        choices=[(s.value, s.value) for s in Severity], required=False, help_text="Degraded sends both severities."
    )
    alert_kinds = drf.ListField(
        child=drf.ChoiceField(choices=[(k.value, k.value) for k in AlertKind]),
        required=False,
        help_text="An incident is sent if its cause or an alert that it explains has one of these kinds; empty: every kind.",
    )
    send_resolved = drf.BooleanField(required=False)
    url = drf.CharField(
        required=False,
        allow_blank=True,
        help_text="Address of a webhook or of Slack's incoming webhook; of PagerDuty only if it is not the default. Never shown again; empty: unchanged.",
    )
    secret = drf.CharField(
        required=False,
        allow_blank=True,
        allow_null=True,
        help_text="HMAC secret of a webhook, integration key of PagerDuty. Never shown again; empty: unchanged; null: removed.",
    )
    recipients = drf.ListField(child=drf.CharField(), required=False, help_text="E-mail addresses.")


class NotificationChannelCreate(NotificationChannelAlter):
    name = drf.CharField(max_length=services.NAME_CHARS_MAX)
    kind = drf.ChoiceField(choices=[(k.value, k.value) for k in ChannelKind])
    secret = drf.CharField(
        required=False, allow_blank=True, help_text="HMAC secret of a webhook, integration key of PagerDuty."
    )


class NotificationChannelViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    """Receivers of incidents outside the console."""

    queryset = NotificationChannel.objects.all()
    serializer_class = CHANNEL
    filterset_class = notifications.NotificationChannelFilter
    page_of = staticmethod(notifications.channel_page)
    ordering = "name"
    lookup_url_kwarg = "channel_id"
    noun = "notification channel"
    tag_of = staticmethod(entity_tags.channel_tag)

    def get_row(self, key: int) -> notifications.NotificationChannelRow | None:
        return notifications.channel_row(key)

    @extend_schema(request=NotificationChannelCreate, responses={201: CHANNEL})
    def create(self, request: Request) -> Response:
        """Create a channel. Incidents that are open are sent to it. Needs an administrator."""
        values = self.body(NotificationChannelCreate)
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_CREATE, values["name"])
        row = services.create_channel(actor=self.actor, **values)
        return Response(CHANNEL(notifications.channel_shape(row)).data, status=201)

    @extend_schema(request=NotificationChannelAlter, responses={200: CHANNEL})
    def partial_update(self, request: Request, channel_id: int) -> Response:
        """Change a channel. Needs an administrator."""
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_ALTER, str(channel_id))
        self.get_object()
        changes = self.body(NotificationChannelAlter)
        services.alter_channel(channel_id, changes, actor=self.actor, comment=changes.pop("comment"))
        return self.row()

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, channel_id: int) -> Response:
        """Delete a channel with its deliveries. Needs an administrator."""
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_DELETE, str(channel_id))
        self.get_object()
        services.delete_channel(channel_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)

    @extend_schema(request=serializers.Comment, responses={200: DELIVERY})
    @action(detail=True, methods=["post"], tag_of=None)
    def test(self, request: Request, channel_id: int) -> Response:
        """Send a test notification now. The response has the receiver's response, also if it is an error. Needs an administrator."""
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_TEST, str(channel_id))
        self.get_object()
        done = services.send_test(channel_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(DELIVERY(notifications.delivery_row(done.pk)).data)


class NotificationDeliveryViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    """Notifications of the last 14 days."""

    queryset = NotificationDelivery.objects.select_related("channel")
    serializer_class = DELIVERY
    filterset_class = notifications.NotificationDeliveryFilter
    page_of = staticmethod(notifications.delivery_page)
    ordering = "-created_at"
    lookup_url_kwarg = "delivery_id"
    noun = "notification delivery"

    def get_row(self, key: int) -> notifications.NotificationDeliveryRow | None:
        return notifications.delivery_row(key)
