"""Roles of users and groups for resources. Only `services.role_bindings` writes them; `services.authorization` decides by them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from controlplane.domain.access import AclPattern
from controlplane.domain.roles import NAME_CHARS_MAX, AccessRole, RoleResource
from controlplane.models.choices import choices

PATTERN = ["role", "resource_type", "pattern_type", "resource_name"]


class RoleBinding(models.Model):
    """Exactly one of `user` and `group` is set. Both are keys, so a later user of the same name inherits nothing."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    group = models.ForeignKey("auth.Group", null=True, on_delete=models.CASCADE, related_name="role_bindings")
    role = models.CharField(max_length=10, choices=choices(AccessRole))
    resource_type = models.CharField(max_length=20, choices=choices(RoleResource))
    pattern_type = models.CharField(max_length=20, choices=choices(AclPattern))
    resource_name = models.CharField(max_length=NAME_CHARS_MAX, help_text="A name, a prefix, or * for all names.")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user=None, group__isnull=False) | models.Q(user__isnull=False, group=None),
                name="role_of_a_user_or_a_group",
            ),
            models.UniqueConstraint(
                fields=["user", *PATTERN], condition=models.Q(group=None), name="one_role_binding_per_user"
            ),
            models.UniqueConstraint(
                fields=["group", *PATTERN], condition=models.Q(user=None), name="one_role_binding_per_group"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} on {self.resource_type} {self.resource_name} ({self.pattern_type})"
