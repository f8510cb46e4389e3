from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4, uuid5

import pytest
from django.db import OperationalError
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import FeatureFinalised, ReplicaReset, TopicReady
from brokerd.cluster.model import BrokerState, TopicState
from brokerd.cluster.znodes import ForwardedRequest
from controlplane.controller.asked import Asked
from controlplane.controller.database import Begin, DatabaseThread
from controlplane.controller.events import ChangeMade, DesiredFailed, DesiredRead, Report
from controlplane.controller.look import Look
from controlplane.controller.wanted import Wanted
from controlplane.models import Change, Cluster, HandledRequest, MovePartition, ReplicaRecovery, Topic
from controlplane.selectors import moves as selectors
from controlplane.services import advancing, features, moves, recovery, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


class Desk:
    """The thread's work without the thread."""

    def __init__(self, image: Image | None = None, **options: Any) -> None:
        self.thread = DatabaseThread(**options)
        self.thread._bootstrapped = 0.0 if options else float("inf")
        self.thread.image = image or Image()
        self.posted: list[DesiredRead | DesiredFailed] = []
        self.thread._post = self.posted.append
        self.thread._handle(Begin(5))
        self.thread._first = False  # what a term begins with has a test of its own

    def request(self, kind: str, *asked: dict[str, Any], request_id: str = "r1", **more: Any) -> Any:
        self.thread._handle(ForwardedRequest(request_id, 1, 101, kind, {"topics": list(asked), **more}))
        return self.posted.pop()

    def poll(self) -> list[DesiredRead | DesiredFailed]:
        self.posted.clear()
        self.thread._poll(5)
        return list(self.posted)


def new(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "partitions": 2, "replication_factor": 1, "assignment": None, "configs": {}, **more}


def test_a_clients_request_ends_in_the_same_rows_as_an_operators(world: World) -> None:
    answer = Desk().request("create_topics", new("flights", configs={"retention.ms": "5", "segment.ms": None}))
    row = Topic.objects.get()
    assert (row.partitions, row.configs, row.request_id) == (2, {"retention.ms": "5"}, "r1")
    assert [(t.topic_id, t.request_id) for t in answer.topics] == [(row.id, "r1")]
    assert Change.objects.get().who == "client at broker 1", "a broker of before does not say who asked"


def test_a_change_row_says_which_principal_asked_at_which_broker(world: World) -> None:
    desk = Desk()
    desk.request("create_topics", new("t"), principal="User:ann")
    desk.request("delete_topics", {"name": "t"}, request_id="r2", principal="User:bob")
    quota = {"name": '{"user":"ann"}', "kind": "quota", "value": {"producer_byte_rate": 1.0}}
    desk.request("alter_access", quota, request_id="r3", principal="User:root")
    assert [(c.verb, c.who) for c in Change.objects.order_by("id")] == [
        ("topic.create", "User:ann at broker 1"),
        ("topic.delete", "User:bob at broker 1"),
        ("quota.set", "User:root at broker 1"),
    ]


def test_a_change_that_did_not_wait_for_the_database_gets_its_row_when_that_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    made = ChangeMade("User:ann at broker 1", "topic.elect-unclean", "topic", "t", {"0": -1}, {"0": 1}, "told")

    def locked(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr("controlplane.controller.database.record", locked)
        desk.thread._handle(made)
        with pytest.raises(OperationalError):
            desk.thread._write_down()
    desk.thread._write_down()
    desk.thread._write_down()
    row = Change.objects.get()
    assert (row.who, row.verb, row.object_name, row.before, row.after, row.detail, row.outcome) == (
        made.who, made.verb, "t", {"0": -1}, {"0": 1}, "told", "confirmed",
    )  # fmt: skip
    assert row.finished_at is not None


def test_a_request_that_comes_twice_writes_once_and_is_answered_twice(world: World) -> None:
    desk = Desk()
    first = desk.request("create_topics", new("a"), new("b"))
    again = desk.request("create_topics", new("a"), new("b"))
    assert {t.topic_id for t in first.topics} == {t.topic_id for t in again.topics}
    assert (Topic.objects.count(), HandledRequest.objects.count()) == (2, 1)


def test_a_request_is_written_whole_or_not_at_all(world: World) -> None:
    desk = Desk()
    topics.create_topic("taken", who="alice")
    answer = desk.request("create_topics", new("free"), new("taken"))
    assert isinstance(answer, DesiredFailed)
    assert answer.error == 36
    assert not Topic.objects.filter(name="free").exists()
    assert not HandledRequest.objects.exists()


def test_grow_alter_and_delete_arrive_as_new_generations_of_the_row(world: World) -> None:
    desk = Desk()
    desk.request("create_topics", new("t", configs={"segment.ms": "5"}))
    grown = desk.request("create_partitions", {"name": "t", "partitions": 4, "assignment": [[1], [2]]}, request_id="r2")
    assert (grown.topics[0].generation, grown.topics[0].assignment) == (2, {2: (1,), 3: (2,)})
    operations = [
        {"name": "retention.ms", "value": "9", "op": "set"},
        {"name": "segment.ms", "value": None, "op": "delete"},
    ]
    altered = desk.request("alter_topic_configs", {"name": "t", "configs": operations}, request_id="r3")
    assert altered.topics[0].configs == {"retention.ms": "9"}
    row = Topic.objects.get()
    gone = desk.request("delete_topics", {"id": str(row.id)}, request_id="r4")
    assert (gone.topics[0].deleted, gone.topics[0].generation) == (True, 4)


def test_altering_what_is_so_already_is_answered_too(world: World) -> None:
    desk = Desk()
    desk.request("create_topics", new("t", configs={"retention.ms": "9"}))
    same = {"name": "t", "configs": [{"name": "retention.ms", "value": "9", "op": "set"}]}
    answer = desk.request("alter_topic_configs", same, request_id="r2")
    assert [(t.generation, t.request_id) for t in answer.topics] == [(1, "r2")]


def test_a_request_that_is_no_request_is_refused_and_the_thread_lives(world: World) -> None:
    answer = Desk().request("create_topics", {"name": "t"})
    assert (type(answer), answer.error) == (DesiredFailed, 42)


def test_a_change_to_a_topic_that_only_the_cluster_knows_is_refused(world: World) -> None:
    topic_id = world.topic("ghost", (1,), row=False)
    answer = Desk().request("delete_topics", {"id": str(topic_id)})
    assert isinstance(answer, DesiredFailed)
    assert "adopt" in answer.message


def test_wishes_are_handed_over_until_the_log_has_them(world: World) -> None:
    image = Image()
    desk = Desk(image)
    row = topics.create_topic("flights", who="alice")
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead)
    assert [t.topic_id for t in read.topics] == [row.id]
    image.topics[row.id] = TopicState(row.id, "flights", 1, {}, 1, ready=False)
    assert len(desk.poll()) == 1
    image.topics[row.id].ready = True
    assert desk.poll() == []
    row.refresh_from_db()
    assert (row.applied_generation, row.controller_epoch) == (1, 5)


def test_a_tombstone_is_handed_over_until_the_log_has_it(world: World) -> None:
    image = Image()
    desk = Desk(image)
    row = topics.create_topic("flights", who="alice")
    topics.delete_topic("flights", who="alice")
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead)
    assert read.topics[0].deleted
    image.deleted[row.id] = 2
    assert desk.poll() == []


def test_orders_of_moves_are_handed_over_bound_to_what_was_read(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move({"kind": "topic", "topic": "flights", "brokers": [2, 3]}, who="alice")
    desk = Desk(world.image)
    assert desk.poll() == []
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead)
    assert [(set(a.replicas), a.read_generation, a.move_id) for a in read.assignments] == [({2, 3}, 0, str(move.pk))]


def test_a_reset_is_handed_over_once_and_marked_when_the_log_has_it(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, who="alice")
    desk = Desk(world.image)
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead)
    assert [r.reset_id for r in read.resets] == [str(row.reset_id)]
    assert desk.poll() == []
    desk.thread.applied(world.image, (ReplicaReset(topic_id, 0, 2, str(row.reset_id)), TopicReady(uuid4())))
    while not desk.thread._commands.empty():
        desk.thread._handle(desk.thread._commands.get())
    desk.poll()
    row.refresh_from_db()
    assert (row.state, row.reset_seq) == ("reset", world.image.seq)


def told(desk: Desk, image: Image, *reset: Any) -> None:
    """The log has a reset now, and the thread has heard of it."""
    desk.thread.applied(image, (ReplicaReset(*reset),))
    while not desk.thread._commands.empty():
        desk.thread._handle(desk.thread._commands.get())
    desk.poll()


def test_a_copy_that_the_controller_has_fetched_anew_by_itself_is_a_recovery_and_a_change_of_its_own(
    world: World,
) -> None:
    topic_id, desk = world.topic("flights", (1, 2)), Desk(world.image)
    world.put("flights", 0, isr=(1,))
    reset_id = str(uuid5(topic_id, "0 2 7"))
    told(desk, world.image, topic_id, 0, 2, reset_id)
    row = ReplicaRecovery.objects.get()
    assert (row.topic_name, row.partition, row.broker_id, row.state, row.who) == (
        "flights",
        0,
        2,
        "reset",
        "controller",
    )
    change = Change.objects.get(verb="replica.recover")
    assert (change.who, change.object_name, change.outcome) == ("controller", "flights-0@2", "pending")
    assert change.why == row.why == recovery.STARTED_TOO_LATE and change.before["isr"] == [1]
    told(desk, world.image, topic_id, 0, 2, reset_id)  # the same entry once more: the answer of ZooKeeper was lost, say
    assert (ReplicaRecovery.objects.count(), Change.objects.filter(verb="replica.recover").count()) == (1, 1)
    world.look()
    assert recovery.advance_recovery(row.pk) == "copying"
    world.put("flights", 0, isr=(1, 2))
    assert recovery.advance_recovery(row.pk) == "done"
    change.refresh_from_db()
    assert change.outcome == "confirmed"
    assert [(r.who, r.state, r.why) for r in selectors.recovery_list().rows] == [
        ("controller", "done", recovery.STARTED_TOO_LATE)
    ]


def test_a_copy_that_somebody_asked_for_as_well_stays_theirs_and_the_change_says_what_was_done(world: World) -> None:
    topic_id, desk = world.topic("flights", (1, 2)), Desk(world.image)
    recovery.recover_replica("flights", 0, 2, who="alice")
    reset_id = str(uuid5(topic_id, "0 2 7"))
    for _ in range(2):
        told(desk, world.image, topic_id, 0, 2, reset_id)
    assert [(r.who, r.state) for r in ReplicaRecovery.objects.all()] == [("alice", "asked")]
    changes = Change.objects.filter(verb="replica.recover", who="controller")
    assert [c.outcome for c in changes] == ["confirmed"]


def test_a_reset_that_was_asked_for_in_another_database_is_nobodys_here(world: World) -> None:
    topic_id, desk = world.topic("flights", (1, 2)), Desk(world.image)
    told(desk, world.image, topic_id, 0, 2, str(uuid4()))
    told(desk, world.image, uuid4(), 0, 2, str(uuid5(topic_id, "0 2 7")))  # its topic is gone
    assert not ReplicaRecovery.objects.exists() and not Change.objects.exists()


def test_reports_reach_the_rows_they_speak_of(world: World) -> None:
    desk = Desk(world.image)
    topics.create_topic("flights", who="alice")
    world.topic("other", (1, 2))
    row = recovery.recover_replica("other", 0, 2, who="alice")
    desk.thread._handle(Report("refused", "flights", "cannot be placed yet"))
    desk.thread._handle(Report("refused", f"recovery {row.reset_id}", "this broker holds no such replica"))
    desk.thread._handle(Report("refused", "move  flights-0", "an order of a client, which has no row"))
    assert Topic.objects.get(name="flights").note == "cannot be placed yet"
    assert "no such replica" in ReplicaRecovery.objects.get().note


def test_a_refused_order_says_its_reason_in_its_row_until_it_is_carried_out(world: World) -> None:
    """The case of old: a log at a level that knows no observers. The row said that no controller had taken the order."""
    world.topic("flights-eu", (1, 2), configs={"retention.ms": "60000"})
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights-eu", "partition": 0, "replicas": [2, 3]}]}
    move = moves.plan_move(to_3, who="alice", mode="tail")
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    desk = Desk(world.image)
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead)
    wanted, look = Wanted(), Look(world.image, {}, set(), {}, {})
    wanted.hear(read)
    wanted.write_assignments(look, Asked())
    (report,) = look.effects
    assert isinstance(report, Report)
    desk.thread._handle(report)
    MovePartition.objects.update(ordered_at=timezone.now() - timedelta(minutes=1))
    advancing.advance_move(move.pk)
    part, row = move.parts.get(), selectors.move_list().rows[0]
    assert (part.state, part.cause) == ("seeding", "refused")
    assert "tail moves need 5 (manage.py upgrade_metadata)" in part.note
    assert row.waits_for == "an order that the controller refuses (1)"
    moves.pause_move(move.pk, who="alice")
    moves.resume_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    assert (move.parts.get().cause, move.parts.get().note) == ("", ""), "ordered anew, and not answered yet"
    desk.thread._reports.clear()
    desk.thread._handle(report)
    world.put("flights-eu", 0, observers=(3,), assignment_generation=1)
    advancing.advance_move(move.pk)
    advancing.advance_move(move.pk)
    assert (move.parts.get().state, move.parts.get().cause) == ("following", "")
    desk.thread._handle(Report("refused", report.subject, "it came too late"))
    assert "too late" not in move.parts.get().note


def test_internal_topics_are_made_once_three_brokers_are_there(world: World) -> None:
    image = Image()
    desk = Desk(image, brokers_expected=3, offsets_partitions=4, transactions_partitions=5)
    for b in (1, 2):
        image.brokers[b] = BrokerState(b, b, "u", "h", 1)
    desk.poll()
    assert not Topic.objects.exists()
    image.brokers[3] = BrokerState(3, 3, "u", "h", 1)
    desk.thread._bootstrapped = 0
    desk.poll()
    rows = list(Topic.objects.order_by("name"))
    assert [(r.name, r.partitions, r.replication_factor, r.internal) for r in rows] == [
        ("__consumer_offsets", 4, 3, True),
        ("__transaction_state", 5, 3, True),
    ]
    assert all(r.configs["min.insync.replicas"] == "2" for r in rows)
    desk.thread._bootstrapped = 0
    desk.poll()
    assert Topic.objects.count() == 2


def test_a_row_older_than_the_log_is_neither_handed_over_nor_marked(world: World) -> None:
    image = Image()
    desk = Desk(image)
    row = topics.create_topic("flights", who="alice")
    image.topics[row.id] = TopicState(row.id, "flights", 7, {}, 3, ready=True)
    assert desk.poll() == []
    row.refresh_from_db()
    assert row.applied_generation == 0


def test_deleting_a_row_of_a_topic_that_the_log_deleted_long_ago_ends(world: World) -> None:
    image = Image()
    desk = Desk(image)
    row = topics.create_topic("flights", who="alice")
    image.deleted[row.id] = 9
    topics.delete_topic("flights", who="alice")
    assert desk.poll() == []
    row.refresh_from_db()
    assert row.applied_generation == row.generation == 2


@pytest.mark.parametrize("known", ["", "c"])
def test_a_term_begins_with_the_cluster_that_the_rows_are_of(db: None, known: str) -> None:
    if known:
        Cluster.objects.create(pk=1, cluster_id=known)
    desk = Desk()
    desk.thread._handle(Begin(6))
    (read,) = desk.poll()
    assert isinstance(read, DesiredRead) and (read.complete, read.cluster_id) == (True, known)
    assert desk.poll() == []


def test_what_the_log_finalises_is_remembered_for_a_log_that_begins_anew(db: None) -> None:
    desk = Desk()

    def term(epoch: int) -> DesiredRead:
        desk.thread._handle(Begin(epoch))
        desk.posted.clear()
        desk.thread._poll(epoch)
        (read,) = desk.posted
        assert isinstance(read, DesiredRead)
        return read

    assert term(6).features == {}
    for level in (1, 2):
        desk.thread.applied(desk.thread.image or Image(), (FeatureFinalised("transaction.version", level),))
        desk.thread._handle(desk.thread._commands.get())
        desk.thread._poll(6)
    assert term(7).features == {"transaction.version": 2}, "though this log says nothing of it"
    assert desk.thread.image is not None
    desk.thread.image.features["transaction.version"] = 0
    assert term(8).features == {"transaction.version": 0}, "an older database follows the log"
    features.remember("transaction.version", 2, 7)
    assert features.remembered() == {"transaction.version": 0}, "a controller of an earlier epoch changes nothing"
