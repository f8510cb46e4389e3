"""Permissions of the REST API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.services.common import READ_ONLY


class IsOperatorOrReadOnly(BasePermission):
    """Logged-in users may read. Only operators (staff) may change something, and nobody while WEIR_READ_ONLY is on."""

    message = "Only operators may change the cluster; ask one for the role."

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        if settings.WEIR.read_only and request.method not in SAFE_METHODS and user and user.is_authenticated:
            self.message = READ_ONLY
            return False
        return bool(user and user.is_authenticated and (request.method in SAFE_METHODS or user.is_staff))


class MayManageOwnTokens(BasePermission):
    """Every user may create and revoke tokens, viewers too. A token of a scope below admin may not: otherwise a stolen token outlives its revocation. A
    token of an operator with the scope operate may revoke. The queryset of the view has only the tokens that the user may revoke."""

    message = "A token with this scope cannot create or revoke tokens. Log in, or use a token of the scope admin."

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        if not user or not user.is_authenticated:
            return False
        limited = isinstance(request.auth, ApiToken) and request.auth.scope != TokenScope.ADMIN
        return request.method in SAFE_METHODS or not limited or (user.is_staff and request.method == "DELETE")
