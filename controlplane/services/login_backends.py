"""Django's authentication backends of the console, as `weir.authentication` lists them in the settings.

Invariant: a session remembers its backend, and Django ends the sessions of a backend that the settings no longer list.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest


class OidcUsers(ModelBackend):
    """Sessions and permissions of users whom the provider of OpenID Connect has authenticated. Checks no password (`console.views.oidc` logs in)."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **kwargs: Any) -> None:
        return None
