"""A session is valid until its end, and only for an active user with an unchanged password."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.selectors.sessions import signed_in

pytestmark = pytest.mark.django_db


def session() -> tuple[str, Any, Client]:
    user, client = get_user_model().objects.create_user("ann", password="a long password"), Client()
    client.force_login(user)
    key = client.session.session_key
    assert key is not None
    return key, user, client


def test_a_session_ends_with_sign_out() -> None:
    key, _, client = session()
    assert signed_in(key) and not signed_in(None) and not signed_in("unknown")
    client.logout()
    assert not signed_in(key)


@pytest.mark.parametrize("change", ["deactivated", "deleted", "password"])
def test_a_session_ends_with_its_user(change: str) -> None:
    key, user, _ = session()
    if change == "deleted":
        user.delete()
    else:
        user.is_active = change != "deactivated"
        if change == "password":
            user.set_password("another password")
        user.save()
    assert not signed_in(key)
