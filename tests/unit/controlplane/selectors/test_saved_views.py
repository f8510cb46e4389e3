"""Saved views and hidden columns belong to one user."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from controlplane.models import HiddenColumns, SavedView
from controlplane.selectors import saved_views as selectors

pytestmark = pytest.mark.django_db


def test_each_user_has_own_views_and_columns() -> None:
    ann, bob = (get_user_model().objects.create_user(name) for name in ("ann", "bob"))
    SavedView.objects.create(user=ann, name="mine", address="/topics/?q=x")
    SavedView.objects.create(user=bob, name="his", address="/")
    HiddenColumns.objects.create(user=ann, table="topics", columns=["Records", "Offline"])
    assert [(v.name, v.address) for v in selectors.saved_views(ann.pk)] == [("mine", "/topics/?q=x")]
    assert selectors.hidden_columns(ann.pk, "topics") == {"Records", "Offline"}
    assert selectors.hidden_columns(ann.pk, "groups") == selectors.hidden_columns(bob.pk, "topics") == frozenset()
