"""Saved views and hidden columns of a user of the console. Only `services.saved_views` writes them. Nothing of the
cluster depends on them, so they are not in the audit log."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """A page with its filters, sort order and range. `address`: path and query string, below the root of the console."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=80)
    address = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_saved_view_per_name")]

    def __str__(self) -> str:
        return f"{self.name}: {self.address}"


class HiddenColumns(models.Model):
    """The columns of one table that a user does not see. `columns`: their labels."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="hidden_columns")
    table = models.CharField(max_length=40)
    columns = models.JSONField(default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "table"], name="one_row_per_user_and_table")]

    def __str__(self) -> str:
        return f"{self.table}: {', '.join(self.columns)}"
