"""The scope of a token limits the roles of the user in the request, not in the database."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from controlplane.api.authentication import limit_to_scope
from controlplane.domain.token_scopes import TokenScope

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("scope", "roles"), [("read", (False, False)), ("operate", (True, False)), ("admin", (True, True))]
)
def test_a_scope_limits_the_roles_in_memory(scope: str, roles: tuple[bool, bool]) -> None:
    user = get_user_model().objects.create_superuser("root")
    seen = limit_to_scope(user, TokenScope(scope))
    assert (seen.is_staff, seen.is_superuser) == roles
    user.refresh_from_db()
    assert (user.is_staff, user.is_superuser) == (True, True)


def test_a_scope_gives_no_role() -> None:
    user = limit_to_scope(get_user_model().objects.create_user("bob"), TokenScope.ADMIN)
    assert (user.is_staff, user.is_superuser) == (False, False)
