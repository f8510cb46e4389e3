"""One row of the audit log, for the page of the change."""

from __future__ import annotations

from controlplane.monitoring.change_marks import change_row
from controlplane.services.common import record


def test_a_change_is_found_by_its_id_and_a_missing_one_is_none(db: None) -> None:
    change = record("alice", "topic.alter", "topic", "flights", comment="x")
    found = change_row(change.pk)
    assert found is not None and (found.id, found.actor) == (change.pk, "alice")
    assert change_row(change.pk + 1) is None
