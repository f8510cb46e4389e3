"""Authentication by API tokens: `Authorization: Token weir_...` or `Bearer weir_...`.

Invariant: the user of a request has no more permissions than the scope of its token. The user object is changed in memory only and is never
saved by a request of the API.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.services import api_tokens, external_logins
from controlplane.services.authorization import TOKEN_SCOPE, VIEWS_EVERYTHING

SCHEMES = {b"token", b"bearer"}


class ApiTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[object, ApiToken] | None:
        """None for other credentials, which the next authentication class reads."""
        parts = get_authorization_header(request).split()
        if len(parts) != 2 or parts[0].lower() not in SCHEMES or not parts[1].startswith(api_tokens.MARK.encode()):
            return None
        row = api_tokens.find_token(parts[1].decode("latin-1"))
        if row is None or not row.user.is_active:
            raise AuthenticationFailed("The API token is unknown or was revoked.")
        if api_tokens.expired(row):
            raise AuthenticationFailed("The API token expired; create another one.")
        if rejection := external_logins.token_rejection(row.user):
            raise AuthenticationFailed(rejection)
        return limit_to_scope(row.user, TokenScope(row.scope)), row

    def authenticate_header(self, request: Request) -> str:
        return "Token"


def limit_to_scope(user: User, scope: TokenScope) -> User:
    """`user` without the roles that the scope does not permit. `services.authorization` applies the scope to role bindings."""
    setattr(user, TOKEN_SCOPE, scope)
    setattr(user, VIEWS_EVERYTHING, user.is_staff or user.is_superuser)
    user.is_staff = user.is_staff and scope.permits(TokenScope.OPERATE)
    user.is_superuser = user.is_superuser and scope.permits(TokenScope.ADMIN)
    return user
