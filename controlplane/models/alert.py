"""What is wrong, since when. Law: observed, and written by the observer only; an ended row is never opened by anything but the same trouble."""

from __future__ import annotations

from django.db import models


class Alert(models.Model):
    """`kind`, `subject`, `severity`, `text` and `do` are `controlplane.alerts.Alert`'s. `ended_at` null = now."""

    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=100, default="")
    severity = models.CharField(max_length=20)
    text = models.TextField()
    do = models.TextField()
    since = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=models.Q(ended_at__isnull=True), name="one_open_alert_per_subject"
            )
        ]
