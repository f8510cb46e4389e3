"""Plans of cluster documents, and who manages which resource. Only `services.cluster_documents` writes them."""

from __future__ import annotations

from django.db import models

from controlplane.domain.document_plan import StepOutcome, StoredOutcome, StoredStep, outcomes_from_json
from controlplane.domain.document_values import ResourceKind
from controlplane.models.choices import choices


class DocumentPlan(models.Model):
    """The steps that a document requires. Steps and digest never change, and `document` only to null; `results` grows with each step that ran, in the transaction of the step. Only
    `services.document_drift` writes the drift."""

    owner = models.CharField(max_length=100, blank=True, help_text="Whose resources the document has; empty: nobody's.")
    prune = models.BooleanField(
        default=False, help_text="Resources of the owner that are not in the document are deleted."
    )
    take_over = models.BooleanField(default=False, help_text="Resources of other owners get the owner of the document.")
    digest = models.CharField(max_length=64, help_text="SHA-256 over the steps, hexadecimal.")
    document = models.JSONField(
        null=True, help_text="What the plan was made from; null: not kept. The drift of an applied document needs it."
    )
    steps: models.Field[list[StoredStep], list[StoredStep]] = models.JSONField(default=list)
    results: models.Field[dict[str, StoredOutcome], dict[str, StoredOutcome]] = models.JSONField(
        default=dict, help_text="{number of the step: [result, detail, phrase of the detail]}"
    )
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    applied_by = models.CharField(max_length=150, default="", blank=True)
    applied_at = models.DateTimeField(null=True, help_text="When the last step succeeded; null: steps remain.")
    drift_count = models.PositiveIntegerField(
        null=True, help_text="Resources that differ from the document; null: unknown, or a newer plan was applied."
    )
    drift_names = models.JSONField(default=list, help_text="The first of them.")
    drift_at = models.DateTimeField(null=True, help_text="When the drift last changed.")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"document plan {self.pk}"

    @property
    def outcomes(self) -> dict[int, StepOutcome]:
        """The results by the number of the step. A step that did not run has none."""
        return outcomes_from_json(self.results)


class ManagedResource(models.Model):
    """The owner of the document that last applied this resource. `identity`: distinguishes a topic or route from a later one of the same name."""

    kind = models.CharField(max_length=20, choices=choices(ResourceKind))
    key = models.CharField(max_length=1000)
    identity = models.CharField(max_length=64, blank=True)
    owner = models.CharField(max_length=100, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="one_owner_per_resource")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key} of {self.owner}"
