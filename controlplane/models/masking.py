"""Masking rules: parts of records that viewers do not see. Only `services.masking` writes them."""

from __future__ import annotations

from django.db import models

from controlplane.domain.masking import MaskTarget
from controlplane.models.choices import choices


class MaskingRule(models.Model):
    topics = models.CharField(max_length=249, help_text="Name of a topic, with * for any characters.")
    target = models.CharField(max_length=10, choices=choices(MaskTarget))
    field = models.CharField(
        max_length=200, blank=True, help_text="JSON path in keys and values, empty for the whole; name of a header."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["topics", "target", "field"]
        constraints = [models.UniqueConstraint(fields=["topics", "target", "field"], name="one_row_per_masking_rule")]

    def __str__(self) -> str:
        return f"{self.target} {self.field or '(whole)'} of {self.topics}"
