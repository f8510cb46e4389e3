"""Who may do what, proves who he is how, and how much of it. Law: wanted here, carried by the metadata log, enforced by brokers."""

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


class AccessEntry(models.Model):
    """An ACL, a SCRAM credential, a quota or a broker's settings as the metadata log carries it (`AccessChanged`, `BrokerConfigChanged`). `value` NULL: deleted; the row stays, so that
    an older copy of this database cannot bring it back. A credential's value holds keys, never a password. `overlay` is what running moves lay over a broker's settings (`services.throttles`)."""

    kind = models.CharField(max_length=10)
    key = models.CharField(max_length=1000)
    value = models.JSONField(null=True)
    overlay = models.JSONField(null=True)
    generation = models.PositiveBigIntegerField(default=1)
    applied_generation = models.PositiveBigIntegerField(default=0)
    controller_epoch = models.PositiveBigIntegerField(default=0)
    waiting = models.BooleanField(default=True, db_index=True)
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="one_row_per_access_key")]
