"""The command `issue_token`: a new token revokes the old one."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from rest_framework.authtoken.models import Token

from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


def test_a_new_token_replaces_the_old_one() -> None:
    user = get_user_model().objects.create_user("alice")
    old = Token.objects.create(user=user).key
    new = run("issue_token", "alice").strip()
    assert new != old and [t.key for t in Token.objects.all()] == [new]


def test_an_unknown_user_gets_no_token() -> None:
    with pytest.raises(CommandError, match="There is no user 'nobody'; create one with ensure_operator"):
        run("issue_token", "nobody")
    assert not Token.objects.exists()
