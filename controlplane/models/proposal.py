"""An act that overrides a safety refusal, proposed by one person and approved by another. Law: the row holds what its author was shown and the hash
of it; its state changes by compare-and-set; one open proposal per kind and target is a constraint."""

from __future__ import annotations

from django.db import models


class ProposalState(models.TextChoices):
    OPEN = "open", "open"
    APPROVED = "approved", "approved"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    REJECTED = "rejected", "rejected"
    WITHDRAWN = "withdrawn", "withdrawn"
    EXPIRED = "expired", "expired"


class Proposal(models.Model):
    """`kind` is a name of services.overrides.KINDS, `target` what it is about in that kind's words, `arguments` what the act takes besides.

    `shown` is what its author saw ({"title", "lines", "facts"}), `shown_hash` SHA-256 of it, kind, target and arguments; approving is refused
    when it would be shown differently now. `approved` lasts while the act is carried out; `detail` says how that ended.
    """

    kind = models.CharField(max_length=40)
    target = models.CharField(max_length=300)
    arguments = models.JSONField(default=dict)
    shown = models.JSONField()
    shown_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=ProposalState.choices, default=ProposalState.OPEN, db_index=True)
    proposed_by = models.CharField(max_length=150)
    why = models.TextField()
    proposed_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    decided_by = models.CharField(max_length=150, default="")
    decided_why = models.TextField(default="")
    decided_at = models.DateTimeField(null=True)
    detail = models.TextField(default="")
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
