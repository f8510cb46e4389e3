"""Delegation tokens are disabled. A token for another user needs a permission on that user."""

from __future__ import annotations

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.authz.scene import Broker


@pytest.mark.parametrize(
    ("version", "owner", "rules", "error"),
    [
        (3, (None, None), [], 61),
        (3, ("User", "alice"), [], 61),
        (3, ("User", "bob"), [], 65),
        (2, ("User", "bob"), [], 61),
        (3, ("User", "bob"), ["create_tokens user User:bob"], 61),
        (3, ("User", "bob"), ["create_tokens user User:carol"], 65),
    ],
)
def test_a_token_for_another_user_needs_a_permission_on_that_user(
    version: int, owner: tuple[str | None, str | None], rules: list[str], error: int
) -> None:
    """61: tokens are disabled. 65: no permission."""
    broker = Broker()
    broker.allow(*rules)
    body = m.CreateDelegationTokenRequest(owner_principal_type=owner[0], owner_principal_name=owner[1])
    assert broker.send_request(ApiKey.CREATE_DELEGATION_TOKEN, version, body).error_code == error
