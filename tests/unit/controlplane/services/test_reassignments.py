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
from tests.unit.stored_requests import forwarded_request

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
        self.deliver(Elected(epoch), DesiredRead(complete=True, cluster_id="test"), self.brokers_seen(1, 2, 3))

    def brokers_seen(self, *brokers: int) -> BrokersSeen:
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
        self.world.project()
        return reported

    def send_request(
        self, kind: str, *items: dict[str, Any], request_id: str = ""
    ) -> dict[str, tuple[int, str | None]]:
        self.asked += 1
        rid = request_id or f"r{self.asked}"
        self.deliver(Requested(forwarded_request(rid, 1, 101, kind, {"topics": list(items), "principal": "User:kim"})))
        return self.responses[rid]

    def moves(self, **wanted: list[int] | None) -> dict[str, int]:
        items = [
            {"name": f"flights-{p[1:]}", "topic": "flights", "partition": int(p[1:]), "replicas": r}
            for p, r in wanted.items()
        ]
        return {name: error for name, (error, _) in self.send_request("alter_reassignments", *items).items()}

    def state(self, index: int = 0) -> PartitionState:
        return self.world.state("flights", index)

    def advance_moves(self) -> None:
        """The worker advances the moves, then the controller reads the rows."""
        for move_id in move_worker.working_moves():
            move_worker.advance_move(move_id)
        self.deliver(
            DesiredRead(
                assignments=tuple(request_persistence.desired_assignment(p) for p in move_worker.ordered_parts())
            )
        )

    def complete_copy(self, index: int = 0) -> None:
        state = self.state(index)
        self.world.put("flights", index, isr=tuple(dict.fromkeys((*state.isr_ids, *state.replicas))))
        self.deliver(self.brokers_seen(1, 2, 3))


@pytest.fixture
def active_controller(world: World) -> ActiveController:
    world.topic("flights", (1, 2), (2, 3))
    return ActiveController(world)


def test_a_clients_reassignment_is_a_running_move_before_the_response(active_controller: ActiveController) -> None:
    assert active_controller.moves(p0=[3, 2]) == {"flights-0": 0}
    assert (active_controller.state().adding, active_controller.state().removing, active_controller.state().target) == (
        (3,),
        (1,),
        (3, 2),
    )
    move = Move.objects.get()
    assert (move.origin, move.state, move.actor) == ("client", "running", "User:kim at broker 1")
    assert move.parts.get().before.replicas == (1, 2)
    active_controller.advance_moves()
    assert move.parts.get().state == "copying"
    active_controller.complete_copy()
    active_controller.advance_moves()
    assert Move.objects.get().state == "done"
    assert active_controller.state().replicas == (3, 2)
    assert Change.objects.get(verb="move.start").outcome == "confirmed"


def test_null_cancels_and_restores_the_exact_placement(active_controller: ActiveController) -> None:
    before = active_controller.state().replicas
    active_controller.moves(p0=[3, 2])
    active_controller.advance_moves()
    assert active_controller.moves(p0=None, p1=None) == {"flights-0": 0, "flights-1": 85}
    assert active_controller.state().target == before
    for _ in range(3):
        active_controller.complete_copy()
        active_controller.advance_moves()
    assert active_controller.state().replicas == before
    assert (Move.objects.get().state, MovePartition.objects.get().state) == ("cancelled", "reverted")


def test_a_client_cancels_one_partition_of_a_move_and_the_others_continue(active_controller: ActiveController) -> None:
    move = moves.plan_move(parse_scope({"kind": "topic", "topic": "flights", "brokers": [1, 3]}), actor="alice")
    moves.start_move(move.pk, actor="alice")
    active_controller.advance_moves()
    assert active_controller.moves(p0=None) == {"flights-0": 0}
    for _ in range(3):
        active_controller.complete_copy(0)
        active_controller.complete_copy(1)
        active_controller.advance_moves()
    states = {p.partition: p.state for p in move.parts.all()}
    assert states == {0: "reverted", 1: "done"}
    move.refresh_from_db()
    assert (move.state, "cancelled by a client" in move.note) == ("done", True)


def test_a_cancel_without_a_possible_leader_is_rejected(active_controller: ActiveController) -> None:
    active_controller.world.topic("lone", (1,))

    def request_assignment(replicas: list[int] | None) -> tuple[int, str | None]:
        item = {"name": "lone-0", "topic": "lone", "partition": 0, "replicas": replicas}
        return active_controller.send_request("alter_reassignments", item)["lone-0"]

    assert request_assignment([2, 3]) == (0, None)
    active_controller.world.put(
        "lone", 0, isr=(2,), leader=2, leader_broker_epoch=102
    )  # the only old replica has left the ISR
    code, text = request_assignment(None)
    assert (code, "without a leader" in (text or "")) == (39, True)
    assert active_controller.world.state("lone", 0).target == (2, 3)


def test_a_partition_of_another_move_is_rejected_with_its_number(active_controller: ActiveController) -> None:
    active_controller.moves(p0=[3, 2])
    number = Move.objects.get().pk
    response = active_controller.send_request(
        "alter_reassignments", {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [1, 3]}
    )
    assert response["flights-0"][0] == 60
    assert f"move {number}" in (response["flights-0"][1] or "")
    assert active_controller.moves(p0=[3, 2]) == {"flights-0": 0}  # an identical request is no conflict
    assert Move.objects.count() == 1


def test_each_partition_of_a_reassignment_is_checked_separately(active_controller: ActiveController) -> None:
    active_controller.deliver(active_controller.brokers_seen(1, 2))  # broker 3 fails
    reported = active_controller.moves(p0=[3, 2], p1=[2, 1], p7=[1])
    assert reported == {"flights-0": 39, "flights-1": 0, "flights-7": 3}
    assert active_controller.moves(p0=[1, 1]) == {"flights-0": 39}
    assert active_controller.moves(p0=[]) == {"flights-0": 39}
    assert active_controller.moves(p0=[1, 2]) == {"flights-0": 0}  # already in the requested state
    assert MovePartition.objects.count() == 1


def test_a_repeated_reassignment_is_written_once_and_answered_each_time(active_controller: ActiveController) -> None:
    item = {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [3, 2]}
    assert active_controller.send_request("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    active_controller.become_active(3)  # its successor reads the same request
    assert active_controller.send_request("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    assert Move.objects.count() == 1


def test_an_order_for_the_current_placement_invalidates_an_earlier_one(active_controller: ActiveController) -> None:
    move = moves.plan_move(
        parse_scope({"kind": "topic", "topic": "flights", "brokers": [1, 3]}), actor="alice", parts_in_flight_max=1
    )
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    (late,) = [
        request_persistence.desired_assignment(p) for p in move_worker.ordered_parts()
    ]  # read, and not applied yet
    moves.cancel_move(move.pk, actor="alice")
    active_controller.advance_moves()
    active_controller.advance_moves()
    active_controller.advance_moves()
    move.refresh_from_db()
    assert move.state == "cancelled"
    before = active_controller.state(late.partition)
    active_controller.deliver(DesiredRead(assignments=(late,)))
    assert active_controller.state(late.partition) == before
