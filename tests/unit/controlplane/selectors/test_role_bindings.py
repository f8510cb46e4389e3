"""Role bindings as rows: order, filters, and those of a user and of the user's groups."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from controlplane.selectors import role_bindings as selectors
from controlplane.services.role_bindings import create_binding

pytestmark = pytest.mark.django_db


def bind(name: str, **holder: str) -> Any:
    values = {"role": "reader", "resource_type": "topic", "pattern_type": "literal", "actor": "root"}
    return create_binding(**holder, **values, resource_name=name)


def test_bindings_are_listed_found_and_read_by_their_user() -> None:
    user, group = get_user_model().objects.create_user("bob"), Group.objects.create(name="payments")
    mine, theirs = bind("orders", user="bob"), bind("flights", group="payments")
    assert [r.id for r in selectors.binding_list().rows] == [theirs.pk, mine.pk]
    assert [r.group for r in selectors.binding_list(sort="group").rows] == ["payments", ""]
    for query in ("bob", "order"):
        assert [r.user for r in selectors.binding_list(query=query).rows] == ["bob"]
    assert selectors.binding_row(mine.pk) == selectors.binding_shape(mine) and selectors.binding_row(99) is None
    assert [b.pk for b in selectors.bindings_of(user.pk)] == [mine.pk]
    user.groups.add(group)
    assert [b.pk for b in selectors.bindings_of(user.pk)] == [mine.pk, theirs.pk]
