"""Alerts: open and resolved, their timelines, silences and thresholds. Only the monitor writes alerts, except for the acknowledgement. A resolved row is
reopened only by an alert of the same kind and subject."""

from __future__ import annotations

from django.db import models

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert import RULES
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.alert_types import AlertMetric, AlertParts, ClientRejection, EntryKind, GroupTopic, Severity
from controlplane.domain.history import HistorySubject
from controlplane.models.choices import choices
from controlplane.models.phrase_field import phrase_field

KINDS = [(r.kind.value, r.kind.replace("_", " ")) for r in RULES]


class Alert(models.Model):
    """`kind`, `subject`, `severity`, `text` and `do` are those of `alert_types.ComputedAlert`. The parts of its subject are in `metric`, `object_kind` and
    `object_name` (AlertMetric), in `client` and `client_reason` (ClientRejection), or in `group_id` and `topic` (GroupTopic). `ended_at` null: open.
    `acknowledged_at` null: no operator works on it."""

    kind = models.CharField(max_length=40, choices=KINDS)
    subject = models.CharField(max_length=300, default="", help_text="Id of a broker, move or job, or name of a group.")
    metric = models.CharField(max_length=40, default="", blank=True, help_text="Of an anomaly; empty: of other alerts.")
    object_kind = models.CharField(max_length=20, default="", blank=True, choices=choices(HistorySubject))
    object_name = models.CharField(
        max_length=300, default="", blank=True, help_text="Name of the object of the metric; empty: the cluster."
    )
    client = models.TextField(
        default="", blank=True, help_text="Of an alert about a rejected client: its principal or address."
    )
    client_reason = models.CharField(max_length=40, default="", blank=True, choices=choices(RejectionReason))
    group_id = models.CharField(
        max_length=255, default="", blank=True, help_text="Share group of an alert about missing dead letters."
    )
    topic = models.CharField(max_length=249, default="", blank=True, help_text="Topic of the records of `group_id`.")
    severity = models.CharField(max_length=20, choices=choices(Severity))
    text = models.TextField()
    do = models.TextField(verbose_name="action")
    words = models.JSONField(
        default=dict, help_text="Values in text and action (weir_common.phrases), for other languages."
    )
    since = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, db_index=True, help_text="Null: the alert is open.")
    acknowledged_by = models.CharField(max_length=150, default="")
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=models.Q(ended_at__isnull=True), name="one_open_alert_per_subject"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}".strip()


def parts_columns(parts: AlertParts | None) -> dict[str, str]:
    """The columns of a row for the parts of its subject."""
    match parts:
        case AlertMetric(name, kind, object_name):
            return {"metric": name, "object_kind": kind, "object_name": object_name}
        case ClientRejection(client, reason):
            return {"client": client, "client_reason": reason}
        case GroupTopic(group_id, topic):
            return {"group_id": group_id, "topic": topic}
        case None:
            return {}


class AlertThreshold(models.Model):
    """A threshold that an administrator has changed (`domain.alert_thresholds`). The others have their defaults and no row."""

    name = models.CharField(max_length=40, unique=True, choices=choices(ThresholdName))
    value = models.FloatField(help_text="In the unit of the threshold.")
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class AlertThresholdVersion(models.Model):
    """The number of changes of a threshold by users, for the cluster and for single objects. An unchanged threshold has no row. The row is
    also the lock of a change."""

    name = models.CharField(max_length=40, unique=True, choices=choices(ThresholdName))
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"version {self.version} of {self.name}"


class AlertThresholdOverride(models.Model):
    """The value of a threshold for one broker, group or topic; `domain.alert_thresholds.OBJECTS` has the kind of the object."""

    name = models.CharField(max_length=40, choices=choices(ThresholdName))
    subject = models.CharField(max_length=255, help_text="Id of the broker, or name of the group or topic.")
    value = models.FloatField(help_text="In the unit of the threshold.")
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["name", "subject"]
        constraints = [
            models.UniqueConstraint(fields=["name", "subject"], name="one_override_per_threshold_and_object")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.subject} = {self.value}"


class AlertEntry(models.Model):
    """One line of an alert's timeline. `actor`: a user, or empty for the monitor."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="entries")
    at = models.DateTimeField()
    kind = models.CharField(max_length=20, choices=choices(EntryKind))
    actor = models.CharField(max_length=150, default="")
    text = models.TextField(default="")
    phrase = phrase_field("the text")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.text}".strip()


class AlertSilence(models.Model):
    """Alerts of this kind and object are marked as silenced until `ends_at`. `subject` null: every object of the kind. `ended_by`: who ended it
    early; then `ends_at` is that time."""

    kind = models.CharField(max_length=40, choices=KINDS)
    subject = models.CharField(max_length=300, null=True, help_text="Null: every object of the kind.")
    reason = models.TextField()
    actor = models.CharField(max_length=150)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(db_index=True)
    ended_by = models.CharField(max_length=150, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject or ''}".strip()
