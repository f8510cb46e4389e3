"""Deletion of a group: rejected with members, unknown without a response, recorded with its offsets."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.models import Change, ConsumerGroup
from controlplane.services import Rejected
from controlplane.services.groups import delete_group
from tests.unit.console.seed import group

pytestmark = pytest.mark.django_db


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The deleted groups. An exception in it is raised instead."""
    asked: list[Any] = []

    def delete(group_id: str) -> None:
        if asked and isinstance(asked[0], Exception):
            raise asked[0]
        asked.append(group_id)

    monkeypatch.setattr(kafka, "delete_group", delete)
    return asked


def last_change() -> Change:
    found = Change.objects.first()
    assert found is not None
    return found


def test_an_empty_group_is_deleted_and_its_offsets_are_recorded(calls: list[Any]) -> None:
    group("nightly", {("t", 0): (7, 9), ("t", 1): (None, 9)}, "stopped", members=0)
    assert delete_group("nightly", actor="alice", comment="unused") == "confirmed"
    assert calls == ["nightly"] and not ConsumerGroup.objects.exists()
    assert (last_change().verb, last_change().outcome, last_change().comment) == ("group.delete", "confirmed", "unused")
    assert last_change().before == {"state": "Empty", "offsets": {"t-0": 7}}


def test_a_group_with_members_is_not_deleted(calls: list[Any]) -> None:
    group("billing", {("t", 0): (7, 9)}, "healthy", members=2)
    with pytest.raises(Rejected, match="has 2 members"):
        delete_group("billing", actor="alice")
    assert not calls and last_change().outcome == "refused"


def test_without_a_response_the_outcome_is_unknown_and_the_row_stays(calls: list[Any]) -> None:
    group("nightly", {}, "stopped", members=0)
    calls.append(NoResponse("timed out"))
    assert delete_group("nightly", actor="alice") == "unknown"
    assert ConsumerGroup.objects.exists() and (last_change().outcome, last_change().detail) == ("unknown", "timed out")


def test_a_rejection_of_the_coordinator_is_the_reason(calls: list[Any]) -> None:
    calls.append(Declined("not empty"))
    with pytest.raises(Rejected, match="was not deleted: not empty"):
        delete_group("none", actor="alice")
    assert last_change().outcome == "refused"
