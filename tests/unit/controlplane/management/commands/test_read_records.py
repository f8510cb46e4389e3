"""The command `read_records`: grants and revokes one permission."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db
READ = "controlplane.read_records"


def reload(user: Any) -> Any:
    """The user without the cache of its permissions."""
    return get_user_model().objects.get(pk=user.pk)


def test_the_permission_is_granted_and_revoked() -> None:
    user = get_user_model().objects.create_user("alice")
    assert not user.has_perm(READ)
    run("read_records", "alice")
    assert reload(user).has_perm(READ)
    run("read_records", "alice", "--revoke")
    assert not reload(user).has_perm(READ)


def test_an_administrator_keeps_the_permission_and_the_command_prints_a_note() -> None:
    user = get_user_model().objects.create_superuser("root")
    assert "root is an administrator and can still read records." in run("read_records", "root", "--revoke")
    assert reload(user).has_perm(READ)


def test_an_unknown_user_is_rejected() -> None:
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        run("read_records", "nobody")
