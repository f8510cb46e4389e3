"""Rows of masking rules: found by a part of the topic pattern."""

from __future__ import annotations

import pytest

from controlplane.models import MaskingRule
from controlplane.selectors import masking

pytestmark = pytest.mark.django_db


def test_rules_are_listed_searched_and_read_one_by_one() -> None:
    for topics, field in (("orders*", "$.card"), ("payments", ""), ("orders", "$.name")):
        MaskingRule.objects.create(topics=topics, target="value", field=field, created_by="alice")
    assert [r.topics for r in masking.rule_list().rows] == ["orders", "orders*", "payments"]
    assert [r.field for r in masking.rule_list(query="ORD", sort="-field").rows] == ["$.name", "$.card"]
    row = masking.rule_list(query="pay").rows[0]
    assert masking.rule_row(row.id) == row and row.created_by == "alice"
    assert masking.rule_row(999) is None
