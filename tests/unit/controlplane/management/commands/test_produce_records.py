"""The command `produce_records`: grants and revokes the permission of its name."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


def test_the_permission_is_granted_and_revoked() -> None:
    user = get_user_model().objects.create_user("alice")
    for option, has in (([], True), (["--revoke"], False)):
        run("produce_records", "alice", *option)
        fresh = get_user_model().objects.get(pk=user.pk)
        assert fresh.has_perm("controlplane.produce_records") is has
        assert not fresh.has_perm("controlplane.read_records")
