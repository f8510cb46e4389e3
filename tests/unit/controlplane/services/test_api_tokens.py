"""Tokens are found by their text until they expire or are revoked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.services import api_tokens
from controlplane.services.common import Rejected

pytestmark = pytest.mark.django_db


@pytest.fixture
def token(db: None) -> tuple[ApiToken, str]:
    get_user_model().objects.create_user("alice", is_staff=True)
    return api_tokens.create_token("ci", actor="alice", scope=TokenScope.READ, limit=TokenScope.OPERATE)


def test_a_token_is_found_by_its_text_only(token: tuple[ApiToken, str]) -> None:
    row, text = token
    found = api_tokens.find_token(text)
    assert found is not None and found.pk == row.pk
    assert api_tokens.find_token(row.digest) is None and api_tokens.find_token(row.prefix) is None


def test_a_use_is_recorded_again_after_a_minute(token: tuple[ApiToken, str]) -> None:
    old = timezone.now() - api_tokens.USE_RECORDED_EVERY - timedelta(seconds=1)
    ApiToken.objects.update(last_used_at=old)
    api_tokens.find_token(token[1])
    used = ApiToken.objects.get().last_used_at
    assert used is not None and used > old


def test_an_expired_token_is_found_and_its_use_is_not_recorded(token: tuple[ApiToken, str]) -> None:
    ApiToken.objects.update(expires_at=timezone.now())
    found = api_tokens.find_token(token[1])
    assert found is not None and api_tokens.expired(found)
    assert ApiToken.objects.get().last_used_at is None


def test_a_revoked_token_is_gone_and_a_second_revocation_has_no_effect(token: tuple[ApiToken, str]) -> None:
    for _ in range(2):
        api_tokens.revoke_token(token[0].pk, actor="alice")
    assert api_tokens.find_token(token[1]) is None


def test_a_scope_above_the_limit_is_rejected(token: tuple[ApiToken, str]) -> None:
    with pytest.raises(Rejected, match="only tokens up to the scope operate"):
        api_tokens.create_token("x", actor="alice", scope=TokenScope.ADMIN, limit=TokenScope.OPERATE)
