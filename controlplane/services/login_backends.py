"""Django's authentication backends of the console, as `weir.authentication` lists them in the settings.

Invariant: a session remembers its backend, and Django ends the sessions of a backend that the settings no longer list.
"""

from __future__ import annotations

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest

from controlplane.clients import ldap
from controlplane.services import external_logins


class OidcUsers(ModelBackend):
    """Sessions and permissions of users whom the provider of OpenID Connect has authenticated. Checks no password (`console.views.oidc` logs in)."""

    def authenticate(self, request: HttpRequest | None, *args: object, **kwargs: object) -> None:
        return None


class LdapUsers(ModelBackend):
    """Users of an LDAP directory. Raises LoginRejected if the password is correct but the user is in no permitted group, and if the directory does not
    respond."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: object
    ) -> User | None:
        found = ldap.authenticate(username or "", password or "")
        return None if found is None else external_logins.user_of(found)
