"""The audit log: the database rejects edits, and the hash chain detects edits that bypass the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from controlplane.models import Change, ChangeSeal, MoveTransition
from controlplane.models.change import Outcome
from controlplane.services import audit, moves
from controlplane.services.common import finish_changes, record
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def record_changes(count: int = 3) -> list[Change]:
    rows = [
        record("alice", "topic.alter", "topic", f"t{i}", comment="x", before={"a": i}, object_id=f"o{i}", generation=1)
        for i in range(count)
    ]
    while audit.seal():
        pass
    return rows


def by_hand(statement: str) -> None:
    """The edits of an attacker with the database's file and password: without the triggers."""
    with connection.cursor() as cursor:
        on = "" if connection.vendor == "sqlite" else " ON {}"
        tables = [Change, Change, ChangeSeal, ChangeSeal, MoveTransition, MoveTransition]
        for name, model in zip(audit.TRIGGERS, tables, strict=True):
            cursor.execute(f"DROP TRIGGER {name}{on.format(model._meta.db_table)}")
        cursor.execute(statement)
    audit.protect()


@pytest.mark.parametrize("column", ["actor", "comment", "verb", "object_name", "before", "at", "generation"])
def test_a_change_row_cannot_be_altered(db: None, column: str) -> None:
    (row,) = record_changes(1)
    value = {"at": timezone.now(), "before": {"a": 9}, "generation": 7}.get(column, "mallory")
    with pytest.raises(IntegrityError, match="cannot be edited"), transaction.atomic():
        Change.objects.filter(pk=row.pk).update(**{column: value})
    assert audit.verify_chain().problems == []


def test_change_rows_links_and_transitions_cannot_be_deleted(world: World) -> None:
    world.topic("flights", (1, 2))
    scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
    move = moves.plan_move(parse_scope(scope), actor="alice")
    moves.start_move(move.pk, actor="alice")
    audit.seal()
    for rows in (Change.objects.all(), ChangeSeal.objects.all(), MoveTransition.objects.all()):
        with pytest.raises(IntegrityError, match="cannot be edited"), transaction.atomic():
            rows._raw_delete(rows.db)
    for model, values in ((ChangeSeal, {"digest": "0" * 64}), (MoveTransition, {"actor": "mallory"})):
        with pytest.raises(IntegrityError, match="cannot be edited"), transaction.atomic():
            model.objects.update(**values)


def test_an_outcome_is_set_once(db: None) -> None:
    (row,) = record_changes(1)
    assert finish_changes("o0", 1, Outcome.CONFIRMED, "read back") == 1
    with pytest.raises(IntegrityError, match="cannot be edited"), transaction.atomic():
        Change.objects.filter(pk=row.pk).update(outcome=Outcome.REJECTED)
    audit.seal()
    assert [(link.number, link.part) for link in ChangeSeal.objects.all()] == [(1, "act"), (2, "outcome")]
    assert audit.verify_chain().problems == []


def test_an_edit_that_bypassed_the_triggers_is_detected(db: None) -> None:
    rows = record_changes()
    table = Change._meta.db_table
    by_hand(f"UPDATE {table} SET actor = 'mallory' WHERE id = {rows[1].pk}")
    (problem,) = audit.verify_chain().problems
    assert f"Change {rows[1].pk} (topic.alter of t1 by mallory) does not match link" in problem


def test_a_changed_outcome_is_detected(db: None) -> None:
    rows = record_changes()
    finish_changes("o1", 1, Outcome.REJECTED)
    audit.seal()
    by_hand(f"UPDATE {Change._meta.db_table} SET outcome = 'confirmed' WHERE id = {rows[1].pk}")
    (problem,) = audit.verify_chain().problems
    assert "does not match link" in problem and "(outcome)" in problem


def test_deleted_links_are_detected(db: None) -> None:
    rows = record_changes()
    by_hand(f"DELETE FROM {ChangeSeal._meta.db_table} WHERE number = 2")
    problems = audit.verify_chain().problems
    assert problems[0] == "Links 2 to 2 of the chain are missing."
    assert f"Change {rows[1].pk} was sealed 1 times, but the chain has 0 of its links." in problems


def test_a_rewritten_chain_lacks_a_noted_head(db: None) -> None:
    rows = record_changes()
    head = audit.verify_chain().head
    by_hand(f"UPDATE {Change._meta.db_table} SET comment = 'harmless', seals = 0 WHERE id = {rows[0].pk}")
    by_hand(f"DELETE FROM {ChangeSeal._meta.db_table}")
    by_hand(f"UPDATE {Change._meta.db_table} SET seals = 0")
    while audit.seal():
        pass
    assert audit.verify_chain().problems == []
    assert "is not in this chain" in audit.verify_chain(head).problems[0]


def test_an_unsealed_row_is_reported(db: None) -> None:
    (row,) = record_changes(1)
    old = record("alice", "topic.alter", "topic", "late", outcome=Outcome.CONFIRMED)
    assert audit.verify_chain().problems == [], "the worker looks each second"
    then = timezone.now() - timedelta(hours=1)
    by_hand(f"UPDATE {Change._meta.db_table} SET at = '{then:%Y-%m-%d %H:%M:%S}' WHERE id = {old.pk}")
    (problem,) = audit.verify_chain().problems
    assert problem.startswith(f"Change {old.pk} of") and "never sealed" in problem and str(row.pk) != str(old.pk)


def test_a_missing_trigger_is_reported_and_restored(db: None) -> None:
    with connection.cursor() as cursor:
        on = "" if connection.vendor == "sqlite" else f" ON {Change._meta.db_table}"
        cursor.execute(f"DROP TRIGGER weir_change_kept{on}")
    assert audit.verify_chain().problems == [
        "Trigger weir_change_kept is missing; `manage.py migrate` creates it again."
    ]
    audit.protect()
    assert audit.verify_chain().problems == []


def test_a_worker_with_an_outdated_head_adds_no_links(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    record_changes(1)
    record("alice", "topic.alter", "topic", "t", outcome=Outcome.CONFIRMED)
    with monkeypatch.context() as other:
        other.setattr(audit, "_last_seal", lambda: (0, audit.BEGINNING))  # read before the other worker wrote
        assert audit.seal() == 0
    assert ChangeSeal.objects.count() == 1
    assert audit.seal() == 2
    assert audit.verify_chain().problems == []


def test_the_command_prints_its_findings(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    rows = record_changes()
    call_command("verify_audit")
    said = capsys.readouterr().out
    assert said.startswith("3 changes, 3 links, head 3:")
    call_command("verify_audit", head=said.split()[-1])
    by_hand(f"UPDATE {Change._meta.db_table} SET actor = 'mallory' WHERE id = {rows[0].pk}")
    with pytest.raises(CommandError, match="by mallory"):
        call_command("verify_audit")
    with pytest.raises(CommandError, match="is not a head"):
        call_command("verify_audit", head="nonsense")
