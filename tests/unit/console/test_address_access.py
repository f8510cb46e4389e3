"""Rights for an address are those that its page itself enforces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, User

from console.address_access import DENIED, may_be_shown, may_use, missing_role
from controlplane.selectors.visibility import seen_by
from controlplane.services.authorization import visibility_of
from controlplane.services.common import READ_ONLY
from tests.unit.console.test_view_by_role import bind, view_by_role

OPERATOR = User(username="operator", is_staff=True)


def test_a_page_without_an_operation_needs_no_role() -> None:
    assert not missing_role(AnonymousUser(), "/brokers/1/", posts=False)
    assert missing_role(AnonymousUser(), "/brokers/1/drain/", posts=False) == str(DENIED)
    assert not missing_role(OPERATOR, "/brokers/1/drain/", posts=False)


def test_a_read_only_console_rejects_posts_only(settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, read_only=True)
    assert missing_role(OPERATOR, "/brokers/1/demote/", posts=True) == READ_ONLY
    assert not missing_role(OPERATOR, "/brokers/1/drain/", posts=False)
    assert not may_use(OPERATOR, "/brokers/1/drain/"), "its form would be rejected"


@pytest.mark.django_db
def test_the_names_in_path_and_query_decide(settings: Any) -> None:
    user = get_user_model().objects.create_user("team")
    bind("team", ("topic", "literal", "orders"), ("group", "literal", "billing"), role="operator")
    view_by_role(settings)
    with seen_by(visibility_of(user)):
        shown = {
            a: may_be_shown(a)
            for a in ("/topics/orders/", "/topics/flights/", "/clients/?q=x", "/alerts/?state=resolved")
        }
        usable = [a for a in ("/topics/orders/alter/", "/topics/flights/alter/") if may_use(user, a)]
    assert shown == {
        "/topics/orders/": True,
        "/topics/flights/": False,
        "/clients/?q=x": False,
        "/alerts/?state=resolved": True,
    }
    assert usable == ["/topics/orders/alter/"]
    assert not missing_role(user, "/topics/orders/alter/", posts=False)
    assert "role operator on topic flights" in missing_role(user, "/topics/flights/alter/", posts=False)
    assert not missing_role(user, "/offset-resets/new/?group=billing", posts=False)
    assert "role operator on group other" in missing_role(user, "/offset-resets/new/?group=other", posts=False)
