"""The order of token scopes, and the scope of a role."""

from __future__ import annotations

import pytest

from controlplane.domain.token_scopes import TokenScope, scope_of_role


@pytest.mark.parametrize(
    ("scope", "permitted"),
    [("read", {"read"}), ("operate", {"read", "operate"}), ("admin", {"read", "operate", "admin"})],
)
def test_a_scope_permits_itself_and_the_smaller_ones(scope: str, permitted: set[str]) -> None:
    assert {other.value for other in TokenScope if TokenScope(scope).permits(other)} == permitted


def test_a_role_has_a_greatest_scope() -> None:
    assert scope_of_role(is_operator=False, is_superuser=False) is TokenScope.READ
    assert scope_of_role(is_operator=True, is_superuser=False) is TokenScope.OPERATE
    assert scope_of_role(is_operator=True, is_superuser=True) is TokenScope.ADMIN
