"""ACLs, credentials, quotas, broker configs: desired state. The metadata log distributes it and brokers enforce it."""

from __future__ import annotations

from django.db import models

from controlplane.domain.access import AccessRecordKind, AclOperation, AclPattern, AclPermission, AclResource
from controlplane.models.choices import choices


class Acl(models.Model):
    """One ACL binding. `resource_type` and the other fields have Kafka's names, in lower case."""

    resource_type = models.CharField(max_length=20, choices=choices(AclResource))
    pattern_type = models.CharField(max_length=20, default="literal", choices=choices(AclPattern))
    resource_name = models.CharField(max_length=255)
    principal = models.CharField(max_length=255, help_text="Type and name: User:alice. User:* is every user.")
    host = models.CharField(max_length=255, default="*", help_text="Address of the client; * is every address.")
    operation = models.CharField(max_length=30, choices=choices(AclOperation))
    permission = models.CharField(max_length=10, choices=choices(AclPermission))
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["resource_type", "resource_name", "principal", "operation"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "resource_type",
                    "pattern_type",
                    "resource_name",
                    "principal",
                    "host",
                    "operation",
                    "permission",
                ],
                name="one_row_per_binding",
            )
        ]

    def __str__(self) -> str:
        return f"{self.permission} {self.operation} on {self.resource_type}:{self.resource_name} for {self.principal}"


class AccessEntry(models.Model):
    """An ACL, a SCRAM credential, a quota or the configs of a broker, as the metadata log stores it (`AccessChanged`, `BrokerConfigChanged`). `value`
    NULL: deleted. The row stays, so that an older copy of this database cannot restore the value. A credential's value contains keys, never a
    password. `overlay`: what running moves add to the configs of a broker (`services.throttles`)."""

    kind = models.CharField(max_length=10, choices=choices(AccessRecordKind))
    key = models.CharField(max_length=1000)
    value = models.JSONField(null=True, help_text="As the metadata log stores it; null: deleted.")
    overlay = models.JSONField(null=True, help_text="What running moves add to the configs of a broker.")
    generation = models.PositiveBigIntegerField(default=1)
    applied_generation = models.PositiveBigIntegerField(default=0)
    controller_epoch = models.PositiveBigIntegerField(default=0)
    waiting = models.BooleanField(
        default=True, db_index=True, help_text="The metadata log does not contain this generation yet."
    )
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="one_row_per_access_key")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
