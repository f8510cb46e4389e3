"""Backends of users of a directory. Logins with a real directory: clients/test_ldap.py; with a real provider: console/views/test_oidc.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.clients import ldap
from controlplane.domain.external_login import ExternalUser, LoginRejected, LoginSource
from controlplane.services.login_backends import LdapUsers, OidcUsers

pytestmark = pytest.mark.django_db
ALICE = ExternalUser(LoginSource.LDAP, "dc=a", "entryUUID:1", "alice", "", frozenset({"ops"}))


def test_a_provider_of_openid_connect_accepts_no_password_here() -> None:
    assert OidcUsers().authenticate(None, username="alice", password="a long password") is None


def test_a_right_password_needs_a_permitted_group(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(ldap, "authenticate", lambda name, password: ALICE if password == "right" else None)
    assert LdapUsers().authenticate(None, "alice", "wrong") is None
    with pytest.raises(LoginRejected):
        LdapUsers().authenticate(None, "alice", "right")
    settings.WEIR = replace(settings.WEIR, login_viewer_groups=("ops",))
    assert LdapUsers().authenticate(None, "alice", "right").get_username() == "alice"
