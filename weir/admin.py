"""A read-only Django admin over all tables, for superusers: /admin/.

Rows are changed by services only; the admin shows them as they are stored. Values of access entries are never shown, because they contain credentials.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

HIDDEN = {"accessentry": ("value",), "apitoken": ("digest",), "notificationchannel": ("url", "secret")}
ROWS_PER_PAGE = 50
COLUMNS_MAX = 10


class ReadOnlySite(admin.AdminSite):
    site_header = site_title = "Weir: stored rows (read-only)"
    index_title = "Tables"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)  # type: ignore[union-attr]

    def login(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """The login page of the console, so that its delay after failed logins, its audit records and the configured login methods apply here too."""
        if request.user.is_authenticated:
            raise PermissionDenied("The stored rows are shown to administrators (superusers) only.")
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"), reverse("login"))


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_per_page = ROWS_PER_PAGE
    show_full_result_count = False  # tables may have a hundred thousand rows
    actions = None

    ordering = ("-pk",)

    def get_list_display(self, request: HttpRequest) -> Any:
        fields = self.model._meta.concrete_fields
        return [f.name for f in fields if f.name not in self._hidden_fields() and not _is_long(f)][:COLUMNS_MAX]

    def get_exclude(self, request: HttpRequest, obj: object = None) -> tuple[str, ...]:
        return self._hidden_fields()

    def _hidden_fields(self) -> tuple[str, ...]:
        return HIDDEN.get(self.model._meta.model_name or "", ())

    def has_add_permission(self, request: HttpRequest, *_: object) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


def _is_long(field: models.Field[object, object]) -> bool:
    return isinstance(field, (models.TextField, models.JSONField, models.BinaryField))


site = ReadOnlySite(name="admin")
for _model in apps.get_app_config("controlplane").get_models():
    site.register(_model, ReadOnlyAdmin)
