"""Results of health checks. Only the monitor writes these rows. A failure keeps the time since when it lasts."""

from __future__ import annotations

from django.db import models

from controlplane.domain.health import CheckName, CheckState
from controlplane.models.choices import choices


class HealthResult(models.Model):
    """The last result of one check over all its objects. `since`: of its state."""

    name = models.CharField(max_length=40, primary_key=True, choices=choices(CheckName))
    state = models.CharField(max_length=20, choices=choices(CheckState))
    since = models.DateTimeField()
    checked_at = models.DateTimeField()
    objects_count = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    unknown = models.PositiveIntegerField()
    value = models.FloatField(null=True, help_text="Of the object that is worst; null: no value is known.")

    def __str__(self) -> str:
        return f"{self.name} {self.state}"


class HealthFailure(models.Model):
    """An object that fails a check. Of each check the worst are stored."""

    name = models.CharField(max_length=40, choices=choices(CheckName))
    subject = models.CharField(max_length=300, help_text="Broker id, topic or group; empty for the cluster.")
    value = models.FloatField()
    since = models.DateTimeField()

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["name", "subject"], name="one_row_per_health_failure")]

    def __str__(self) -> str:
        return f"{self.name} of {self.subject}"
