"""Columns that a user has hidden, as CSS classes and as choices."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.template import RequestContext
from django.test import RequestFactory

from console.templatetags.tables import column_choices, hidden_columns
from controlplane.services.saved_views import hide_columns

pytestmark = pytest.mark.django_db

LABELS = "State|Records|Size"


def test_the_classes_count_the_columns_in_front() -> None:
    request = RequestFactory().get("/topics/")
    request.user = get_user_model().objects.create_user("alice")
    context = RequestContext(request, {"request": request})
    assert hidden_columns(context, "topics", LABELS) == ""
    hide_columns(request.user.pk, "topics", ["Records", "Size", "no such column"])
    assert hidden_columns(context, "topics", LABELS) == "hide-3 hide-4"
    assert hidden_columns(context, "topics", LABELS, 2) == "hide-4 hide-5"
    assert [c["shown"] for c in column_choices(context, "topics", LABELS)] == [True, False, False]
