"""The audit log: newest first, filtered by object, actor, outcome and text."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.selectors import changes
from controlplane.services.common import record

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def three_changes() -> None:
    record("alice", "topic.create", "topic", "orders", comment="new shop", outcome=Outcome.CONFIRMED)
    record("bob", "acl.create", "acl", "3", comment="reads orders", outcome=Outcome.REJECTED)
    record("alice", "records.read", "records", "payments-0", outcome=Outcome.CONFIRMED)


def verbs(**options: Any) -> list[str]:
    return [r.verb for r in changes.change_list(**options).rows]


def test_changes_are_listed_newest_first() -> None:
    assert verbs() == ["records.read", "acl.create", "topic.create"]
    assert verbs(sort="at") == ["topic.create", "acl.create", "records.read"]
    record("alice", "session.login", "session", "alice", outcome=Outcome.CONFIRMED)
    assert verbs(reads=False) == ["acl.create", "topic.create"] and verbs()[0] == "session.login"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"query": "orders"}, 2),
        ({"query": "SHOP"}, 1),
        ({"query": "alice"}, 2),
        ({"query": "acl.c"}, 1),
        ({"object_kind": "topic"}, 1),
        ({"object_kind": "topic", "object_name": "payments"}, 0),
        ({"actor": "alice"}, 2),
        ({"actor": "ali"}, 0),
        ({"outcome": "refused"}, 1),
    ],
)
def test_filters(options: dict[str, str], found: int) -> None:
    assert changes.change_list(**options).total == found  # type: ignore[arg-type]


def test_a_time_range_includes_its_start_and_excludes_its_end() -> None:
    _, second, third = Change.objects.order_by("id")
    between = {"since": second.at.isoformat(), "until": third.at.isoformat()}
    assert [c.verb for c in changes.ChangeFilter.rows(Change.objects.all(), **between)] == [second.verb]
