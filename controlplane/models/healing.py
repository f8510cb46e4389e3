"""Self-healing: settings of its actions, and their runs."""

from __future__ import annotations

from django.db import models

from controlplane.domain.healing import HealingAction, HealingMode, HealingOutcome
from controlplane.models.choices import choices


class HealingSetting(models.Model):
    """An action that an operator has changed. The others are off."""

    action = models.CharField(max_length=40, primary_key=True, choices=choices(HealingAction))
    mode = models.CharField(max_length=10, choices=choices(HealingMode))
    cool_down_s = models.PositiveIntegerField(help_text="Seconds.")
    per_hour = models.PositiveIntegerField()
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return f"{self.action} {self.mode}"


class HealingRun(models.Model):
    """A run of an action, or a dry run. Kept for 30 days."""

    at = models.DateTimeField(db_index=True)
    action = models.CharField(max_length=40, choices=choices(HealingAction))
    outcome = models.CharField(max_length=10, choices=choices(HealingOutcome))
    subject = models.CharField(max_length=300, default="")
    detail = models.TextField(default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.action} {self.outcome}"
