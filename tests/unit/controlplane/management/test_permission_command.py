"""Commands that grant and revoke a permission."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


def permissions(name: str) -> set[str]:
    return set(get_user_model().objects.get(username=name).user_permissions.values_list("codename", flat=True))


def test_a_permission_is_granted_and_revoked_any_number_of_times() -> None:
    get_user_model().objects.create_user("ann")
    for _ in range(2):
        run("read_records", "ann")
    assert permissions("ann") == {"read_records"}
    run("produce_records", "ann")
    for _ in range(2):
        run("read_records", "ann", "--revoke")
    assert permissions("ann") == {"produce_records"}


def test_an_unknown_user_is_an_error() -> None:
    with pytest.raises(CommandError, match="no user 'bob'; create one with ensure_operator"):
        run("read_records", "bob")


def test_a_revocation_from_an_administrator_prints_that_the_permission_remains() -> None:
    get_user_model().objects.create_superuser("root")
    assert "root is an administrator and can still" in run("read_records", "root", "--revoke")
    assert run("read_records", "root") == ""
