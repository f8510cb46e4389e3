"""The renewal of a session through LDAP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.clients import ldap
from controlplane.domain.external_login import ExternalUser, LoginSource
from controlplane.services.directory import REMOVED, refresh_user
from controlplane.services.external_logins import user_of

pytestmark = pytest.mark.django_db
ALICE = ExternalUser(LoginSource.LDAP, "dc=a", "entryUUID:1", "alice", "", frozenset({"ops"}))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ALICE, ""),
        (None, REMOVED),
        (replace(ALICE, subject="entryUUID:2"), REMOVED),
        (replace(ALICE, groups=frozenset()), "alice is in no group that may log in"),
    ],
)
def test_a_session_continues_only_for_the_same_entry_in_a_permitted_group(
    monkeypatch: pytest.MonkeyPatch, settings: Any, found: ExternalUser | None, reason: str
) -> None:
    settings.WEIR = replace(settings.WEIR, login_operator_groups=("ops",))
    user = user_of(ALICE)
    monkeypatch.setattr(ldap, "find_user", lambda name: found)
    assert refresh_user(user).startswith(reason) and bool(refresh_user(user)) is bool(reason)
