"""Users of a directory: their rights, links to local users, and API tokens. Rejections at the login page: console/views/test_oidc.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.authtoken.models import Token

from controlplane.domain.external_login import ExternalUser, LoginRejected, LoginSource
from controlplane.models import Change, ExternalIdentity
from controlplane.services import external_logins
from controlplane.services.external_logins import token_rejection, user_of

pytestmark = pytest.mark.django_db
ALICE = ExternalUser(LoginSource.OIDC, "https://id", "s-1", "alice", "alice@example.org", frozenset({"ops"}))


@pytest.fixture(autouse=True)
def groups(settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, login_operator_groups=("ops",), login_groups=(("pay", "payments"),))


def test_an_account_is_found_by_its_subject_and_never_by_its_name() -> None:
    user = user_of(ALICE)
    assert user_of(replace(ALICE, name="bob", groups=frozenset({"pay"}))).pk == user.pk
    for other in (
        replace(ALICE, subject="s-2"),
        replace(ALICE, issuer="https://other"),
        replace(ALICE, name="Alice", subject="s-3"),
    ):
        with pytest.raises(LoginRejected):
            user_of(other)
    assert get_user_model().objects.count() == 1


def test_an_unchanged_login_writes_no_change_of_the_user() -> None:
    user_of(ALICE)
    user_of(ALICE)
    assert [c.verb for c in Change.objects.all()] == ["console_user.create"]


def test_a_linked_user_keeps_rows_and_loses_the_password_and_the_token_without_an_end(settings: Any) -> None:
    local = get_user_model().objects.create_user("alice", password="a long password")
    Token.objects.create(user=local)
    settings.WEIR = replace(settings.WEIR, login_link_users=True)
    assert user_of(ALICE).pk == local.pk
    local.refresh_from_db()
    assert not local.has_usable_password() and not Token.objects.exists()


def test_a_withdrawn_user_is_recorded_one_time() -> None:
    user_of(ALICE)
    for _ in range(2):
        with pytest.raises(LoginRejected):
            user_of(replace(ALICE, groups=frozenset()))
    assert [c.verb for c in Change.objects.order_by("id")] == ["console_user.create", "console_user.refresh"]
    assert ExternalIdentity.objects.get().seen_at is None


def test_tokens_of_local_users_have_no_limit_by_the_last_login() -> None:
    local = get_user_model().objects.create_user("carol")
    assert token_rejection(local) == "" and not external_logins.is_external(local)
    alice = user_of(ALICE)
    assert external_logins.is_external(alice)
    days = timedelta(days=30)
    for seen_at, rejected in ((timezone.now(), False), (timezone.now() - days, True), (None, True)):
        ExternalIdentity.objects.update(seen_at=seen_at)
        assert bool(token_rejection(get_user_model().objects.get(pk=alice.pk))) is rejected
