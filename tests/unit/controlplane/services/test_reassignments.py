"""Requests of Kafka clients (AlterPartitionReassignments, dynamic broker configs) in the control plane: the
controller's core, its database and the rows of moves, without threads, ZooKeeper or brokers. The protocol is tested
in tests/unit/apis/test_reassignments.py."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.metadata import Entry, MetadataRecord, RequestCompleted, entry_hash
from brokerd.cluster.model import Now, PartitionState
from brokerd.cluster.znodes import Registration
from controlplane.controller import request_persistence
from controlplane.controller.core import Core
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    ControllerTick,
    DesiredRead,
    Elected,
    LogEntryAppended,
    Requested,
    WriteDesired,
)
from controlplane.models import Change, Move, MovePartition
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World
from tests.unit.stored_requests import stored

pytestmark = pytest.mark.django_db
NOW = Now(1_000, 2_000)


class ActiveController:
    """The active controller's core over the image of a test cluster. Its records are applied and projected at once."""

    def __init__(self, world: World) -> None:
        self.world, self.image = world, world.image
        self.image.metadata_version = 1
        self.asked = 0
        self.become_active(2)

    def become_active(self, epoch: int) -> None:
        self.core = Core(self.image, "test")
        self.responses: dict[str, dict[str, tuple[int, str | None]]] = {}
        self.deliver(Elected(epoch), DesiredRead(complete=True, cluster_id="test"), self.seen(1, 2, 3))

    def seen(self, *brokers: int) -> BrokersSeen:
        return BrokersSeen(
            {b: Registration(b, f"uuid-{b}", "127.0.0.1", 9000 + b, None, None, True, None, 100 + b) for b in brokers}
        )

    def deliver(self, *events: object) -> list[MetadataRecord]:
        reported: list[MetadataRecord] = []
        queue = [*events]
        while queue:
            for effect in self.core.handle(queue.pop(0), NOW):  # type: ignore[arg-type]
                if isinstance(effect, WriteDesired):
                    queue += request_persistence.persist(effect.request, self.image)
                elif isinstance(effect, AppendMetadata):
                    entry = Entry(
                        self.image.seq + 1, self.core.controller_epoch, "token", self.image.chain_hash, effect.records
                    )
                    self.image.apply_entry(entry, entry_hash(entry.encode()))
                    reported += effect.records
                    queue.append(LogEntryAppended(effect.records))
            if not queue and self.core._dirty:
                queue.append(ControllerTick())
        for r in reported:
            if isinstance(r, RequestCompleted):
                self.responses[r.request_id] = {x["name"]: (x["error"], x["message"]) for x in r.result["results"]}
        self.world.look()
        return reported

    def asks(self, kind: str, *items: dict[str, Any], request_id: str = "") -> dict[str, tuple[int, str | None]]:
        self.asked += 1
        rid = request_id or f"r{self.asked}"
        self.deliver(Requested(stored(rid, 1, 101, kind, {"topics": list(items), "principal": "User:kim"})))
        return self.responses[rid]

    def moves(self, **wanted: list[int] | None) -> dict[str, int]:
        items = [
            {"name": f"flights-{p[1:]}", "topic": "flights", "partition": int(p[1:]), "replicas": r}
            for p, r in wanted.items()
        ]
        return {name: error for name, (error, _) in self.asks("alter_reassignments", *items).items()}

    def state(self, index: int = 0) -> PartitionState:
        return self.world.state("flights", index)

    def works(self) -> None:
        """The worker advances the moves, then the controller reads the rows."""
        for move_id in move_worker.working_moves():
            move_worker.advance_move(move_id)
        self.deliver(
            DesiredRead(
                assignments=tuple(request_persistence.desired_assignment(p) for p in move_worker.ordered_parts())
            )
        )

    def copied(self, index: int = 0) -> None:
        state = self.state(index)
        self.world.put("flights", index, isr=tuple(dict.fromkeys((*state.isr_ids, *state.replicas))))
        self.deliver(self.seen(1, 2, 3))


@pytest.fixture
def acting(world: World) -> ActiveController:
    world.topic("flights", (1, 2), (2, 3))
    return ActiveController(world)


def test_a_clients_reassignment_is_a_running_move_before_the_response(acting: ActiveController) -> None:
    assert acting.moves(p0=[3, 2]) == {"flights-0": 0}
    assert (acting.state().adding, acting.state().removing, acting.state().target) == ((3,), (1,), (3, 2))
    move = Move.objects.get()
    assert (move.origin, move.state, move.actor) == ("client", "running", "User:kim at broker 1")
    assert move.parts.get().before.replicas == (1, 2)
    acting.works()
    assert move.parts.get().state == "copying"
    acting.copied()
    acting.works()
    assert Move.objects.get().state == "done"
    assert acting.state().replicas == (3, 2)
    assert Change.objects.get(verb="move.start").outcome == "confirmed"


def test_null_cancels_and_restores_the_exact_placement(acting: ActiveController) -> None:
    before = acting.state().replicas
    acting.moves(p0=[3, 2])
    acting.works()
    assert acting.moves(p0=None, p1=None) == {"flights-0": 0, "flights-1": 85}
    assert acting.state().target == before
    for _ in range(3):
        acting.copied()
        acting.works()
    assert acting.state().replicas == before
    assert (Move.objects.get().state, MovePartition.objects.get().state) == ("cancelled", "reverted")


def test_a_client_cancels_one_partition_of_a_move_and_the_others_continue(acting: ActiveController) -> None:
    move = moves.plan_move(parse_scope({"kind": "topic", "topic": "flights", "brokers": [1, 3]}), actor="alice")
    moves.start_move(move.pk, actor="alice")
    acting.works()
    assert acting.moves(p0=None) == {"flights-0": 0}
    for _ in range(3):
        acting.copied(0)
        acting.copied(1)
        acting.works()
    states = {p.partition: p.state for p in move.parts.all()}
    assert states == {0: "reverted", 1: "done"}
    move.refresh_from_db()
    assert (move.state, "cancelled by a client" in move.note) == ("done", True)


def test_a_cancel_without_a_possible_leader_is_rejected(acting: ActiveController) -> None:
    acting.world.topic("lone", (1,))

    def asks(replicas: list[int] | None) -> tuple[int, str | None]:
        item = {"name": "lone-0", "topic": "lone", "partition": 0, "replicas": replicas}
        return acting.asks("alter_reassignments", item)["lone-0"]

    assert asks([2, 3]) == (0, None)
    acting.world.put("lone", 0, isr=(2,), leader=2, leader_broker_epoch=102)  # the only old replica has left the ISR
    code, text = asks(None)
    assert (code, "without a leader" in (text or "")) == (39, True)
    assert acting.world.state("lone", 0).target == (2, 3)


def test_a_partition_of_another_move_is_rejected_with_its_number(acting: ActiveController) -> None:
    acting.moves(p0=[3, 2])
    number = Move.objects.get().pk
    response = acting.asks(
        "alter_reassignments", {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [1, 3]}
    )
    assert response["flights-0"][0] == 60
    assert f"move {number}" in (response["flights-0"][1] or "")
    assert acting.moves(p0=[3, 2]) == {"flights-0": 0}  # an identical request is no conflict
    assert Move.objects.count() == 1


def test_each_partition_of_a_reassignment_is_checked_separately(acting: ActiveController) -> None:
    acting.deliver(acting.seen(1, 2))  # broker 3 fails
    reported = acting.moves(p0=[3, 2], p1=[2, 1], p7=[1])
    assert reported == {"flights-0": 39, "flights-1": 0, "flights-7": 3}
    assert acting.moves(p0=[1, 1]) == {"flights-0": 39}
    assert acting.moves(p0=[]) == {"flights-0": 39}
    assert acting.moves(p0=[1, 2]) == {"flights-0": 0}  # already in the requested state
    assert MovePartition.objects.count() == 1


def test_a_repeated_reassignment_is_written_once_and_answered_each_time(acting: ActiveController) -> None:
    item = {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [3, 2]}
    assert acting.asks("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    acting.become_active(3)  # its successor reads the same request
    assert acting.asks("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    assert Move.objects.count() == 1


def test_an_order_for_the_current_placement_invalidates_an_earlier_one(acting: ActiveController) -> None:
    move = moves.plan_move(
        parse_scope({"kind": "topic", "topic": "flights", "brokers": [1, 3]}), actor="alice", parts_in_flight_max=1
    )
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    (late,) = [
        request_persistence.desired_assignment(p) for p in move_worker.ordered_parts()
    ]  # read, and not applied yet
    moves.cancel_move(move.pk, actor="alice")
    acting.works()
    acting.works()
    acting.works()
    move.refresh_from_db()
    assert move.state == "cancelled"
    before = acting.state(late.partition)
    acting.deliver(DesiredRead(assignments=(late,)))
    assert acting.state(late.partition) == before
