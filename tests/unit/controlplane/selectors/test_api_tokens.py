"""A user sees their own tokens, a superuser the tokens of all users."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from controlplane.domain.token_scopes import TokenScope
from controlplane.selectors.api_tokens import token_list, token_row
from controlplane.services.api_tokens import create_token

pytestmark = pytest.mark.django_db


def test_tokens_are_visible_to_their_user_and_to_superusers() -> None:
    users = get_user_model().objects
    alice, root = users.create_user("alice"), users.create_user("root", is_superuser=True)
    row, text = create_token("ci", actor="root", scope=TokenScope.READ, limit=TokenScope.ADMIN)
    create_token("report", actor="alice", scope=TokenScope.READ, limit=TokenScope.READ)
    assert [t.name for t in token_list(alice).rows] == ["report"]
    assert [t.name for t in token_list(root, sort="name").rows] == ["ci", "report"]
    assert [t.name for t in token_list(root, query="rep").rows] == ["report"]
    assert token_row(row.pk, alice) is None
    shown = token_row(row.pk, root)
    assert shown is not None and text not in str(shown) and row.digest not in str(shown)
