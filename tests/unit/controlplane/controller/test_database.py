from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import uuid4, uuid5

import pytest
from django.db import OperationalError
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ReplicaReset, TopicReady
from brokerd.cluster.model import BrokerState, TopicState
from brokerd.wire.errors import ErrorCode
from controlplane.controller import database, request_persistence
from controlplane.controller.database import DatabaseThread, TermStarted
from controlplane.controller.desired import DesiredState
from controlplane.controller.events import (
    DesiredFailed,
    DesiredRead,
    LoggedChange,
    Report,
    ReportKind,
    Subject,
    SubjectKind,
)
from controlplane.controller.pending_requests import PendingRequests
from controlplane.controller.reconcile_pass import ReconcilePass
from controlplane.domain.wait_reason import Wait, WaitReason
from controlplane.models import Change, Cluster, MovePartition, ReplicaRecovery, Topic
from controlplane.selectors import moves as selectors
from controlplane.selectors import recoveries
from controlplane.services import move_worker, moves, recovery, topics
from controlplane.services.common import AlreadyExists, Rejected
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World
from tests.unit.stored_requests import forwarded_request

pytestmark = pytest.mark.django_db


class CoreHarness:
    """The work of the controller's database thread, without the thread."""

    def __init__(self, image: Image | None = None, **options: Any) -> None:
        self.thread = DatabaseThread(**options)
        self.thread._internal_topics_checked = 0.0 if options else float("inf")
        self.thread.image = image or Image()
        self.posted: list[DesiredRead | DesiredFailed] = []
        self.thread._post = self.posted.append
        self.thread._handle(TermStarted(5))
        self.thread._first = False  # the start of a term has its own test

    def request(self, kind: str, *asked: dict[str, Any], request_id: str = "r1", **more: Any) -> Any:
        self.thread._handle(forwarded_request(request_id, 1, 101, kind, {"topics": list(asked), **more}))
        return self.posted.pop()

    def poll(self) -> list[DesiredRead | DesiredFailed]:
        self.posted.clear()
        self.thread._poll(5)
        return list(self.posted)


def topic_payload(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "partitions": 2, "replication_factor": 1, "assignment": None, "configs": {}, **more}


def test_a_change_without_the_database_gets_its_row_when_the_database_is_available(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    core_harness = CoreHarness()
    made = LoggedChange("User:ann at broker 1", "topic.elect-unclean", "topic", "t", {"0": -1}, {"0": 1}, "detail")

    def raise_database_locked(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr("controlplane.controller.database.record", raise_database_locked)
        core_harness.thread._handle(made)
        with pytest.raises(OperationalError):
            core_harness.thread._write_changes()
    core_harness.thread._write_changes()
    core_harness.thread._write_changes()
    row = Change.objects.get()
    assert (row.actor, row.verb, row.object_name, row.before, row.after, row.detail, row.outcome) == (
        made.actor,
        made.verb,
        "t",
        {"0": -1},
        {"0": 1},
        "detail",
        "confirmed",
    )
    assert row.finished_at is not None


def test_a_text_that_the_database_cannot_store_is_rejected_and_the_thread_continues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    core_harness = CoreHarness()
    with monkeypatch.context() as patch:
        error = ValueError("A string literal cannot contain NUL (0x00) characters.")
        patch.setattr(request_persistence, "persist", Mock(side_effect=error))
        response = core_harness.request("create_topics", topic_payload("a"))
    assert (type(response), response.error) == (DesiredFailed, 42)
    assert core_harness.request("create_topics", topic_payload("a"), request_id="r2").topics[0].name == "a"


def test_desired_rows_are_sent_until_the_log_has_them(world: World) -> None:
    image = Image()
    core_harness = CoreHarness(image)
    row = topics.create_topic("flights", actor="alice")
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead)
    assert [t.topic_id for t in read.topics] == [row.id]
    image.topics[row.id] = TopicState(row.id, "flights", 1, {}, 1, ready=False)
    assert len(core_harness.poll()) == 1
    image.topics[row.id].ready = True
    assert core_harness.poll() == []
    row.refresh_from_db()
    assert (row.applied_generation, row.controller_epoch) == (1, 5)


def test_a_tombstone_is_sent_until_the_log_has_it(world: World) -> None:
    image = Image()
    core_harness = CoreHarness(image)
    row = topics.create_topic("flights", actor="alice")
    topics.delete_topic("flights", actor="alice")
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead)
    assert read.topics[0].deleted
    image.deleted[row.id] = 2
    assert core_harness.poll() == []


def test_orders_of_moves_are_sent_with_the_generation_that_was_read(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope({"kind": "topic", "topic": "flights", "brokers": [2, 3]}), actor="alice")
    core_harness = CoreHarness(world.image)
    assert core_harness.poll() == []
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead)
    assert [(set(a.replicas), a.read_generation, a.move_id) for a in read.assignments] == [({2, 3}, 0, str(move.pk))]


def test_a_replica_reset_is_sent_once_and_marked_when_the_log_has_it(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, actor="alice")
    core_harness = CoreHarness(world.image)
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead)
    assert [r.reset_id for r in read.resets] == [str(row.reset_id)]
    assert core_harness.poll() == []
    core_harness.thread.on_applied(world.image, (ReplicaReset(topic_id, 0, 2, str(row.reset_id)), TopicReady(uuid4())))
    while not core_harness.thread._commands.empty():
        core_harness.thread._handle(core_harness.thread._commands.get())
    core_harness.poll()
    row.refresh_from_db()
    assert (row.state, row.reset_seq) == ("reset", world.image.seq)


def report_reset(core_harness: CoreHarness, image: Image, *reset: Any) -> None:
    """The log contains a reset now, and the thread has read it."""
    core_harness.thread.on_applied(image, (ReplicaReset(*reset),))
    while not core_harness.thread._commands.empty():
        core_harness.thread._handle(core_harness.thread._commands.get())
    core_harness.poll()


def test_a_reset_by_the_controller_is_recorded_as_a_recovery_and_a_change(
    world: World,
) -> None:
    topic_id, core_harness = world.topic("flights", (1, 2)), CoreHarness(world.image)
    world.put("flights", 0, isr=(1,))
    reset_id = str(uuid5(topic_id, "0 2 7"))
    report_reset(core_harness, world.image, topic_id, 0, 2, reset_id)
    row = ReplicaRecovery.objects.get()
    assert (row.topic_name, row.partition, row.broker_id, row.state, row.actor) == (
        "flights",
        0,
        2,
        "reset",
        "controller",
    )
    change = Change.objects.get(verb="replica.recover")
    assert (change.actor, change.object_name, change.outcome) == ("controller", "flights-0@2", "pending")
    assert change.comment == row.comment == recovery.STARTED_TOO_LATE and change.before["isr"] == [1]
    # The same entry a second time, for example because ZooKeeper's response was lost.
    report_reset(core_harness, world.image, topic_id, 0, 2, reset_id)
    assert (ReplicaRecovery.objects.count(), Change.objects.filter(verb="replica.recover").count()) == (1, 1)
    world.project()
    assert recovery.advance_recovery(row.pk) == "copying"
    world.put("flights", 0, isr=(1, 2))
    assert recovery.advance_recovery(row.pk) == "done"
    change.refresh_from_db()
    assert change.outcome == "confirmed"
    assert [(r.actor, r.state, r.comment) for r in recoveries.recovery_list().rows] == [
        ("controller", "done", recovery.STARTED_TOO_LATE)
    ]


def test_a_reset_of_a_replica_with_a_requested_recovery_adds_a_change_row_only(world: World) -> None:
    topic_id, core_harness = world.topic("flights", (1, 2)), CoreHarness(world.image)
    recovery.recover_replica("flights", 0, 2, actor="alice")
    reset_id = str(uuid5(topic_id, "0 2 7"))
    for _ in range(2):
        report_reset(core_harness, world.image, topic_id, 0, 2, reset_id)
    assert [(r.actor, r.state) for r in ReplicaRecovery.objects.all()] == [("alice", "requested")]
    changes = Change.objects.filter(verb="replica.recover", actor="controller")
    assert [c.outcome for c in changes] == ["confirmed"]


def test_a_reset_requested_in_another_database_is_not_recorded(world: World) -> None:
    topic_id, core_harness = world.topic("flights", (1, 2)), CoreHarness(world.image)
    report_reset(core_harness, world.image, topic_id, 0, 2, str(uuid4()))
    report_reset(core_harness, world.image, uuid4(), 0, 2, str(uuid5(topic_id, "0 2 7")))  # its topic is deleted
    assert not ReplicaRecovery.objects.exists() and not Change.objects.exists()


def test_reports_are_stored_in_the_rows_of_their_subjects(world: World) -> None:
    core_harness = CoreHarness(world.image)
    topics.create_topic("flights", actor="alice")
    world.topic("other", (1, 2))
    row = recovery.recover_replica("other", 0, 2, actor="alice")
    core_harness.thread._handle(
        Report(ReportKind.REJECTED, Subject(SubjectKind.TOPIC, topic="flights"), "cannot be placed yet")
    )
    core_harness.thread._handle(
        Report(ReportKind.REJECTED, Subject(SubjectKind.RECOVERY, str(row.reset_id)), "this broker has no such replica")
    )
    core_harness.thread._handle(
        Report(
            ReportKind.REJECTED, Subject(SubjectKind.MOVE, "", "flights", 0), "an order of a client, which has no row"
        )
    )
    assert Topic.objects.get(name="flights").note == "cannot be placed yet"
    assert "no such replica" in ReplicaRecovery.objects.get().note


def test_a_rejected_order_has_its_reason_in_its_row_until_it_is_applied(world: World) -> None:
    """Before the fix, with a metadata level without observers, the row contained the error that no controller had accepted the request."""
    world.topic("flights-eu", (1, 2), configs={"retention.ms": "60000"})
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights-eu", "partition": 0, "replicas": [2, 3]}]}
    move = moves.plan_move(parse_scope(to_3), actor="alice", mode="tail")
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    core_harness = CoreHarness(world.image)
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead)
    wanted, look = DesiredState(), ReconcilePass(world.image, {}, set(), {}, {})
    wanted.receive(read)
    wanted.write_assignments(look, PendingRequests())
    (report,) = look.effects
    assert isinstance(report, Report)
    core_harness.thread._handle(report)
    MovePartition.objects.update(submitted_at=timezone.now() - timedelta(minutes=1))
    move_worker.advance_move(move.pk)
    part, row = move.parts.get(), selectors.move_list().rows[0]
    assert (part.state, part.cause) == ("bootstrapping", "refused")
    assert "tail moves need 5 (manage.py upgrade_metadata)" in part.note
    assert row.waits_for == [Wait(WaitReason.REJECTED, 1)]
    moves.pause_move(move.pk, actor="alice")
    moves.resume_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    assert (move.parts.get().cause, move.parts.get().note) == ("", ""), "ordered again, and not answered yet"
    core_harness.thread._reports.clear()
    core_harness.thread._handle(report)
    world.put("flights-eu", 0, observers=(3,), assignment_generation=1)
    move_worker.advance_move(move.pk)
    move_worker.advance_move(move.pk)
    assert (move.parts.get().state, move.parts.get().cause) == ("catching_up", "")
    core_harness.thread._handle(Report(ReportKind.REJECTED, report.subject, "it came too late"))
    assert "too late" not in move.parts.get().note


def test_internal_topics_are_created_when_three_brokers_are_registered(world: World) -> None:
    image = Image()
    core_harness = CoreHarness(
        image, brokers_expected=3, offsets_partitions=4, transactions_partitions=5, share_state_partitions=6
    )
    for b in (1, 2):
        image.brokers[b] = BrokerState(b, b, "u", "h", 1)
    core_harness.poll()
    assert not Topic.objects.exists()
    image.brokers[3] = BrokerState(3, 3, "u", "h", 1)
    core_harness.thread._internal_topics_checked = 0
    core_harness.poll()
    rows = list(Topic.objects.order_by("name"))
    assert [(r.name, r.partitions, r.replication_factor, r.internal) for r in rows] == [
        ("__consumer_offsets", 4, 3, True),
        ("__share_group_state", 6, 3, True),
        ("__transaction_state", 5, 3, True),
    ]
    assert all(r.configs["min.insync.replicas"] == "2" for r in rows)
    core_harness.thread._internal_topics_checked = 0
    core_harness.poll()
    assert Topic.objects.count() == 3


def test_a_row_older_than_the_log_is_neither_sent_nor_marked(world: World) -> None:
    image = Image()
    core_harness = CoreHarness(image)
    row = topics.create_topic("flights", actor="alice")
    image.topics[row.id] = TopicState(row.id, "flights", 7, {}, 3, ready=True)
    assert core_harness.poll() == []
    row.refresh_from_db()
    assert row.applied_generation == 0


def test_the_deletion_of_a_topic_that_the_log_no_longer_has_completes(world: World) -> None:
    image = Image()
    core_harness = CoreHarness(image)
    row = topics.create_topic("flights", actor="alice")
    image.deleted[row.id] = 9
    topics.delete_topic("flights", actor="alice")
    assert core_harness.poll() == []
    row.refresh_from_db()
    assert row.applied_generation == row.generation == 2


@pytest.mark.parametrize("known", ["", "c"])
def test_a_term_starts_with_the_cluster_id_of_the_rows(db: None, known: str) -> None:
    if known:
        Cluster.objects.create(pk=1, cluster_id=known)
    core_harness = CoreHarness()
    core_harness.thread._handle(TermStarted(6))
    (read,) = core_harness.poll()
    assert isinstance(read, DesiredRead) and (read.complete, read.cluster_id) == (True, known)
    assert core_harness.poll() == []


@pytest.mark.parametrize(
    ("rejected", "code"),
    [
        (AlreadyExists("stsixe", "name"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (Rejected("it exists already", "name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Rejected("", "configs.retention.ms"), ErrorCode.INVALID_CONFIG),
        (Rejected("", ""), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_the_error_code_of_a_rejection_does_not_depend_on_its_message(rejected: Rejected, code: ErrorCode) -> None:
    assert database._kafka_error(rejected) is code
