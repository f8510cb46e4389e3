"""Masking rules: who changes them, and to whom they apply."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from controlplane.domain.masking import MaskRule, MaskTarget
from controlplane.models import Change, MaskingRule
from controlplane.services import Rejected, masking

pytestmark = pytest.mark.django_db


def rule(**given: Any) -> MaskingRule:
    return masking.create_rule(**{"topics": "pay.*", "target": "value", "field": "$.card", "actor": "root", **given})


def new_user(**more: Any) -> Any:
    return get_user_model().objects.create_user("bob", **more)


def test_rules_apply_to_viewers_only() -> None:
    rule()
    found = [MaskRule("pay.*", MaskTarget.VALUE, "$.card")]
    assert masking.rules_for(new_user(), "pay.eu") == masking.rules_for(AnonymousUser(), "pay.eu") == found
    assert masking.rules_for(get_user_model().objects.get(), "orders") == []
    for number, role in enumerate(({"is_staff": True}, {"is_superuser": True})):
        assert masking.rules_for(get_user_model().objects.create_user(f"op{number}", **role), "pay.eu") == []


def test_a_rule_is_created_and_deleted_with_audit() -> None:
    row = rule(comment="cards")
    masking.delete_rule(row.pk, actor="root")
    deleted, created = Change.objects.order_by("-id")
    assert (created.verb, created.object_name, created.comment) == ("masking.create", "pay.*", "cards")
    assert created.after == deleted.before == {"topics": "pay.*", "target": "value", "field": "$.card"}
    assert (created.outcome, deleted.outcome) == ("confirmed", "confirmed")


@pytest.mark.parametrize(
    ("given", "field"),
    [({"target": "offset"}, "target"), ({"field": "card"}, "field"), ({"topics": "a b"}, "topics"), ({}, "")],
)
def test_a_rule_that_is_wrong_or_exists_is_rejected_with_audit(given: dict[str, Any], field: str) -> None:
    rule()
    with pytest.raises(Rejected) as rejection:
        rule(**given)
    assert rejection.value.field == field
    assert Change.objects.latest("id").outcome == "refused" and MaskingRule.objects.count() == 1


def test_the_number_of_rules_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "RULES_MAX", 1)
    rule()
    with pytest.raises(Rejected, match="1 rules already"):
        rule(field="$.name")


def test_a_deleted_rule_cannot_be_deleted_again() -> None:
    with pytest.raises(Rejected, match="does not exist"):
        masking.delete_rule(7, actor="root")


def test_only_administrators_pass_and_a_rejection_is_in_the_audit() -> None:
    with pytest.raises(PermissionDenied):
        masking.check_administrator(new_user(is_staff=True), "masking.create", "pay.*")
    change = Change.objects.get()
    assert (change.actor, change.verb, change.outcome) == ("bob", "masking.create", "refused")
    masking.check_administrator(get_user_model().objects.create_user("root", is_superuser=True), "masking.create", "x")
    assert Change.objects.count() == 1


def test_a_masked_key_is_known_by_topic() -> None:
    rule()
    assert not masking.key_is_masked("pay.eu")
    rule(target="key", field="")
    assert masking.key_is_masked("pay.eu") and not masking.key_is_masked("orders")
