"""Who may do what. Law: stored and shown here; brokers do not enforce it yet (GAPS.md says so)."""

from __future__ import annotations

from django.db import models


class Acl(models.Model):
    """One binding in Kafka's words; `resource_type` etc. hold Kafka's names in lower case."""

    resource_type = models.CharField(max_length=20)
    pattern_type = models.CharField(max_length=20, default="literal")
    resource_name = models.CharField(max_length=255)
    principal = models.CharField(max_length=255)
    host = models.CharField(max_length=255, default="*")
    operation = models.CharField(max_length=30)
    permission = models.CharField(max_length=10)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["resource_type", "resource_name", "principal", "operation"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission",
                ],
                name="one_row_per_binding",
            )
        ]  # fmt: skip
