"""The record of intent. Law: one row per act, written in the act's own transaction; afterwards only its outcome is filled in, once, and triggers
in the database hold that. Each row is sealed into a chain of hashes (`ChangeSeal`), which finds what went round the triggers: `services.audit`."""

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

    `object_id` and `generation` say what must have been applied for the outcome to be confirmed. `seals`: 0 none yet, 1 the act, 2 its outcome, too.
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
    seals = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_name"], name="change_by_object"),
            models.Index(fields=["object_id"], condition=models.Q(outcome="pending"), name="change_waiting"),
            models.Index(fields=["seals", "outcome"], condition=models.Q(seals__lt=2), name="change_unsealed"),
        ]


class ChangeSeal(models.Model):
    """One link of the chain: `digest` is SHA-256 over the digest before it and the change's act, or its outcome (`part`). Never altered.

    `number` counts from 1 without gaps. A change has one link of each part.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    change = models.ForeignKey(Change, on_delete=models.PROTECT, related_name="links")
    part = models.CharField(max_length=7, choices=[("act", "act"), ("outcome", "outcome")])
    digest = models.CharField(max_length=64)
    sealed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["change", "part"], name="one_seal_per_change_and_part")]
