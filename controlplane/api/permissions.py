"""Permissions of the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.api import access_rules
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.services import authorization
from controlplane.services.common import READ_ONLY
from controlplane.services.request_resources import RequestNames

if TYPE_CHECKING:
    from rest_framework.views import APIView


class IsOperatorOrReadOnly(BasePermission):
    """Logged-in users may read. Operators (staff) may change everything, and other users the resources of their role bindings. While WEIR_READ_ONLY
    is on, no user may change anything."""

    message = authorization.NEEDS_OPERATOR

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if settings.WEIR.read_only and request.method not in SAFE_METHODS and user and user.is_authenticated:
            self.message = READ_ONLY
            return False
        if not user or not user.is_authenticated:
            return False
        if request.method in SAFE_METHODS:
            return True
        match = request.resolver_match
        rule = access_rules.RULES.get(f"{request.method} {match.url_name}") if match else access_rules.CLUSTER
        self.message = authorization.rejection(user, rule, lambda: _request_arguments(request))
        return not self.message


def _request_arguments(request: Request) -> RequestNames:
    match, body = request.resolver_match, request.data
    return RequestNames(match.kwargs if match else {}, body if isinstance(body, Mapping) else {}, {})


class MayRead(BasePermission):
    """Every logged-in user, also while WEIR_READ_ONLY is on: for a POST that only reads, and has a body because its input is long."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return bool(request.user and request.user.is_authenticated)


class MayManageOwnTokens(BasePermission):
    """Every user may create and revoke tokens, viewers too. A token of a scope below admin may not: otherwise a stolen token outlives its revocation. A
    token of an operator with the scope operate may revoke. The queryset of the view has only the tokens that the user may revoke."""

    message = "A token with this scope cannot create or revoke tokens. Log in, or use a token of the scope admin."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if not user or not user.is_authenticated:
            return False
        limited = isinstance(request.auth, ApiToken) and request.auth.scope != TokenScope.ADMIN
        return (
            request.method in SAFE_METHODS
            or not limited
            or (request.method == "DELETE" and authorization.may_change_something(user))
        )
