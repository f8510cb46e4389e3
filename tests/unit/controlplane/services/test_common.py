"""Rejections leave a change row: the decorator and the context manager."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from controlplane.models import Change, LoginFailure
from controlplane.services.common import Rejected, audited, recorded_rejections

pytestmark = pytest.mark.django_db


@audited("topic.paint", "{name}-{part}", after=lambda a: {"colour": a["colour"]})
def paint(name: str, part: int = 7, *, colour: str = "red", actor: str, comment: str = "") -> str:
    with transaction.atomic():
        LoginFailure.objects.create(name=name, address=colour, last_at="2026-01-01T00:00:00Z")
        if colour == "red":
            raise Rejected("Red is taken.", "colour")
        if colour == "black":
            raise ZeroDivisionError
        return colour


def change(**expected: Any) -> dict[str, Any]:
    row = Change.objects.get()
    return {name: getattr(row, name) for name in expected}


def test_a_rejection_has_a_row_with_the_arguments_of_the_call() -> None:
    with pytest.raises(Rejected, match="Red is taken"):
        paint("t", actor="alice", comment="pretty")
    expected = {
        "actor": "alice",
        "comment": "pretty",
        "verb": "topic.paint",
        "object_kind": "topic",
        "object_name": "t-7",
        "after": {"colour": "red"},
        "outcome": "refused",
        "detail": "Red is taken.",
    }
    assert change(**expected) == expected
    assert not LoginFailure.objects.exists(), "rolled back, and the row of the rejection is not"


def test_neither_a_success_nor_a_defect_is_a_rejection() -> None:
    assert paint("t", colour="green", actor="alice") == "green"
    with pytest.raises(ZeroDivisionError):
        paint("t", colour="black", actor="alice")
    assert not Change.objects.exists()


def test_an_object_name_may_be_a_function_and_is_truncated_to_its_column() -> None:
    @audited("a.b", lambda a: ",".join(a["names"]), kind="thing")
    def reject(names: list[str], *, actor: str) -> None:
        raise Rejected("No.")

    with pytest.raises(Rejected):
        reject(["x" * 200, "y" * 200], actor="bea")
    expected = {
        "object_kind": "thing",
        "object_name": ("x" * 200 + "," + "y" * 200)[:255],
        "comment": "",
        "after": None,
    }
    assert change(**expected) == expected


def test_a_block_records_its_rejection() -> None:
    with pytest.raises(Rejected), recorded_rejections("bea", "move.jump", "move", "3", comment="x", after=[1]):
        raise Rejected("No.")
    expected = {
        "actor": "bea",
        "verb": "move.jump",
        "object_name": "3",
        "comment": "x",
        "after": [1],
        "outcome": "refused",
    }
    assert change(**expected) == expected
