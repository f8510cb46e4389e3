"""Permissions of the REST API."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request


class IsOperatorOrReadOnly(BasePermission):
    """Logged-in users may read. Only operators (staff) may change something."""

    message = "Only operators may change the cluster; ask one for the role."

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and (request.method in SAFE_METHODS or user.is_staff))
