"""Check that a signed-in session is still valid. Connections that outlive a request (the live socket) check this repeatedly."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import get_user


def signed_in(session_key: str | None) -> bool:
    """False after signing out, after the end of the session, for a user who was deactivated or deleted, and after a change of password."""
    if not session_key:
        return False
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast(Any, SimpleNamespace(session=store)))
    return bool(user.is_authenticated and user.is_active)
