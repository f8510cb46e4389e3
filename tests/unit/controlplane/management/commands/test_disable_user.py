from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone

from controlplane.models import ExternalIdentity

pytestmark = pytest.mark.django_db


def test_a_user_is_disabled_and_enabled() -> None:
    get_user_model().objects.create_user("alice")
    call_command("disable_user", "alice")
    assert not get_user_model().objects.get().is_active
    call_command("disable_user", "alice", "--enable")
    assert get_user_model().objects.get().is_active
    with pytest.raises(CommandError, match="no user 'bob'"):
        call_command("disable_user", "bob")


def test_an_emergency_account_is_never_a_user_of_the_directory() -> None:
    user = get_user_model().objects.create_user("alice")
    ExternalIdentity.objects.create(user=user, source="oidc", issuer="https://id", subject="1", seen_at=timezone.now())
    with pytest.raises(CommandError, match="logs in through the directory"):
        call_command("ensure_operator", "--username", "alice", "--password", "a long password")
    user.refresh_from_db()
    assert not user.is_superuser and not user.has_usable_password()
