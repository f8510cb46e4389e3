"""Notification channels and their deliveries. Only `services.notification_channels` writes channels, only `services.notifications` and the worker's
task write deliveries."""

from __future__ import annotations

from django.db import models

from controlplane.db.typed_json import TypedJSONField
from controlplane.domain.alert_types import Severity
from controlplane.domain.notification import ChannelKind, DeliveryError, DeliveryEvent, DeliveryState
from controlplane.domain.notification_message import Message
from controlplane.models.alert import Alert
from controlplane.models.choices import choices


class NotificationChannel(models.Model):
    """`url` and `secret` are credentials: no response, page or audit row contains them. `version`: number of changes by operators."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=choices(ChannelKind))
    enabled = models.BooleanField(default=True)
    severity_min = models.CharField(max_length=20, choices=choices(Severity), default=Severity.DEGRADED)
    alert_kinds = models.JSONField(default=list, help_text="Kinds of alerts; empty: every kind.")
    send_resolved = models.BooleanField(default=True)
    url = models.TextField(default="", help_text="Of a webhook or Slack; of PagerDuty only if it is not the default.")
    secret = models.TextField(default="", help_text="HMAC secret of a webhook, integration key of PagerDuty.")
    recipients = models.JSONField(default=list, help_text="E-mail addresses.")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    delivered_at = models.DateTimeField(null=True, help_text="Last accepted notification.")
    failed_at = models.DateTimeField(null=True, help_text="Last failed attempt.")
    failure = models.TextField(default="", help_text="Why the last failed attempt failed.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class NotificationDelivery(models.Model):
    """One event of an incident for one channel. The row is the queue: the worker attempts it until it is in a final state.

    `incident`: key of the incident, also after the alert row is deleted. `alert` null: a test, or the alert of a silent monitor. `message`: the
    notification as it is sent. `due_at`: time of the next attempt; while SENDING, when the attempt counts as lost. `is_open`: of a TRIGGERED row, until the
    end of the alert is handled."""

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="deliveries")
    alert = models.ForeignKey(Alert, on_delete=models.SET_NULL, null=True, related_name="deliveries")
    incident = models.CharField(max_length=100)
    event = models.CharField(max_length=20, choices=choices(DeliveryEvent))
    state = models.CharField(max_length=20, choices=choices(DeliveryState), default=DeliveryState.PENDING)
    severity = models.CharField(max_length=20, choices=choices(Severity))
    message: models.Field[Message, Message] = TypedJSONField(load=Message.from_json, dump=Message.to_json)
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    due_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=20, choices=choices(DeliveryError), default=DeliveryError.NONE)
    status = models.PositiveIntegerField(default=0, help_text="HTTP status or SMTP code of the last answer; 0: none.")
    answer = models.TextField(default="", help_text="First characters of the last answer, or what failed.")
    is_open = models.BooleanField(default=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["channel", "incident", "event"], name="one_delivery_per_channel_and_event")
        ]
        indexes = [
            # The worker polls each second. Both sets are small, for any number of kept deliveries.
            models.Index(
                fields=["due_at"],
                condition=models.Q(state__in=["pending", "sending", "retrying"]),
                name="deliveries_to_attempt",
            ),
            models.Index(fields=["channel"], condition=models.Q(is_open=True), name="deliveries_of_open_incidents"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.incident} → {self.channel_id}"
