"""The audit log. Invariants: one row per operation, written in the transaction of the operation. Afterwards only its outcome is filled in, one
time; database triggers enforce this. A chain of hashes (`ChangeSeal`) detects changes that bypassed the triggers (`services.audit`).
"""

from __future__ import annotations

from django.db import models

from controlplane.domain.audit_operation import LABELS


class Outcome(models.TextChoices):
    PENDING = "pending", "pending"
    CONFIRMED = "confirmed", "confirmed"
    UNCHANGED = "unchanged", "unchanged"
    REJECTED = "refused", "refused"
    UNKNOWN = "unknown", "unknown"


def operation_choices() -> list[tuple[str, str]]:
    """(stored code, label) of each operation. A function, so that a new operation needs no migration."""
    return [(operation.value, label) for operation, label in LABELS.items()]


class Change(models.Model):
    """`verb` is `<kind>.<operation>` (`topic.create`). `before` and `after` contain what a roll-back or a diff needs; null = did not exist.

    `object_id` and `generation` identify the state whose application confirms the outcome. `seals`: 0 none yet, 1 the operation, 2 also its outcome.
    """

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150)
    verb = models.CharField(max_length=40, choices=operation_choices, help_text="Kind and operation: topic.create.")
    object_kind = models.CharField(max_length=20)
    object_name = models.CharField(max_length=255)
    object_id = models.CharField(max_length=64, default="", help_text="Object whose application confirms the outcome.")
    generation = models.PositiveBigIntegerField(null=True)
    comment = models.TextField(default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.PENDING)
    detail = models.TextField(default="")
    finished_at = models.DateTimeField(null=True)
    seals = models.PositiveSmallIntegerField(default=0, help_text="Number of links in the hash chain: 0 to 2.")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_name"], name="change_by_object"),
            models.Index(fields=["object_id"], condition=models.Q(outcome="pending"), name="change_waiting"),
            models.Index(fields=["seals", "outcome"], condition=models.Q(seals__lt=2), name="change_unsealed"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.object_name}"


class ChangeSeal(models.Model):
    """One link of the hash chain. `digest` is SHA-256 over the previous digest and the operation of the change, or its outcome (`part`). It is
    never altered.

    `number` counts from 1 without gaps. A change has one link of each part.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    change = models.ForeignKey(Change, on_delete=models.PROTECT, related_name="links")
    part = models.CharField(max_length=7, choices=[("act", "act"), ("outcome", "outcome")])
    digest = models.CharField(max_length=64, help_text="SHA-256, hexadecimal.")
    sealed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["change", "part"], name="one_seal_per_change_and_part")]

    def __str__(self) -> str:
        return f"seal {self.number}"
