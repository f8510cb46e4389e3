"""An action against a safety rule, proposed by one operator and approved by another. The row stores what its author saw, and a hash of it.
States change by compare-and-set. A constraint allows one open proposal per kind and target.
"""

from __future__ import annotations

from django.db import models

from controlplane.domain.proposal import KIND_LABELS
from controlplane.models.phrase_field import phrase_field


class ProposalState(models.TextChoices):
    OPEN = "open", "open"
    APPROVED = "approved", "approved"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    REJECTED = "rejected", "rejected"
    WITHDRAWN = "withdrawn", "withdrawn"
    EXPIRED = "expired", "expired"


class Proposal(models.Model):
    """`kind` is a name in services.overrides.KINDS, `target` the object in the form of that kind, `arguments` the other arguments of the operation.

    `shown` is what its author saw ({"title", "lines", "facts"}). `shown_hash` is SHA-256 of it, kind, target and arguments. An approval is rejected
    if the current state would be shown differently. `approved` lasts while the operation runs; `detail` is its result.
    """

    kind = models.CharField(max_length=40, choices=[(kind.value, label) for kind, label in KIND_LABELS.items()])
    target = models.CharField(max_length=300)
    arguments = models.JSONField(default=dict)
    shown = models.JSONField()
    shown_hash = models.CharField(max_length=64, help_text="SHA-256 of what the author saw, hexadecimal.")
    state = models.CharField(max_length=10, choices=ProposalState.choices, default=ProposalState.OPEN, db_index=True)
    proposed_by = models.CharField(max_length=150)
    comment = models.TextField()
    proposed_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    decided_by = models.CharField(max_length=150, default="")
    decided_comment = models.TextField(default="")
    decided_at = models.DateTimeField(null=True)
    detail = models.TextField(default="", help_text="Result of the operation.")
    detail_phrase = phrase_field("the result")
    finished_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "target"],
                condition=models.Q(state__in=["open", "approved"]),
                name="one_open_proposal_per_target",
            )
        ]

    def __str__(self) -> str:
        return f"proposal {self.pk}: {self.kind} {self.target}"
