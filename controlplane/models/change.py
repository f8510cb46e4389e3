"""The record of intent. Law: one row per act, written in the act's own transaction; afterwards only its outcome is filled in, once."""

from __future__ import annotations

from django.db import models


class Outcome(models.TextChoices):
    PENDING = "pending", "pending"
    CONFIRMED = "confirmed", "confirmed"
    UNCHANGED = "unchanged", "unchanged"
    REFUSED = "refused", "refused"
    UNKNOWN = "unknown", "unknown"


class Change(models.Model):
    """`verb` is `<kind>.<act>` (`topic.create`). `before` and `after` hold what a roll-back or a diff needs, null = did not exist.

    `object_id` and `generation` say what must have been applied for the outcome to be confirmed.
    """

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    who = models.CharField(max_length=150)
    verb = models.CharField(max_length=40)
    object_kind = models.CharField(max_length=20)
    object_name = models.CharField(max_length=255)
    object_id = models.CharField(max_length=64, default="")
    generation = models.PositiveBigIntegerField(null=True)
    why = models.TextField(default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.PENDING)
    detail = models.TextField(default="")
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_name"], name="change_by_object"),
            models.Index(fields=["object_id"], condition=models.Q(outcome="pending"), name="change_waiting"),
        ]
