"""What clients of brokers ask for (AlterPartitionReassignments, dynamic broker configs): the controller's core, its database and the rows of
moves, without threads, ZooKeeper or brokers. The protocol's own side is in tests/unit/apis/test_reassignments.py."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.metadata import Entry, Record, RequestAnswered, entry_hash
from brokerd.cluster.model import Now, PartitionState
from brokerd.cluster.znodes import ForwardedRequest, Registration
from controlplane.controller import forwarded
from controlplane.controller.core import Core
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    DesiredRead,
    Elected,
    Requested,
    Tick,
    WriteDesired,
)
from controlplane.models import Change, Move, MovePartition
from controlplane.services import advancing, moves
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
NOW = Now(1_000, 2_000)


class Acting:
    """The acting controller over a world's image; what it appends is applied and mirrored at once."""

    def __init__(self, world: World) -> None:
        self.world, self.image = world, world.image
        self.image.metadata_version = 1
        self.asked = 0
        self.take_office(2)

    def take_office(self, epoch: int) -> None:
        self.core = Core(self.image, "test")
        self.answers: dict[str, dict[str, tuple[int, str | None]]] = {}
        self.hear(Elected(epoch), DesiredRead(complete=True, cluster_id="test"), self.seen(1, 2, 3))

    def seen(self, *brokers: int) -> BrokersSeen:
        return BrokersSeen(
            {b: Registration(b, f"uuid-{b}", "127.0.0.1", 9000 + b, None, None, True, None, 100 + b) for b in brokers}
        )

    def hear(self, *events: object) -> list[Record]:
        told: list[Record] = []
        queue = [*events]
        while queue:
            for effect in self.core.handle(queue.pop(0), NOW):  # type: ignore[arg-type]
                if isinstance(effect, WriteDesired):
                    queue += forwarded.written(effect.request, self.image)
                elif isinstance(effect, AppendMetadata):
                    entry = Entry(
                        self.image.seq + 1, self.core.controller_epoch, "token", self.image.chain_hash, effect.records
                    )
                    self.image.apply_entry(entry, entry_hash(entry.encode()))
                    told += effect.records
                    queue.append(Appended(effect.records))
            if not queue and self.core._stirred:
                queue.append(Tick())
        for r in told:
            if isinstance(r, RequestAnswered):
                self.answers[r.request_id] = {x["name"]: (x["error"], x["message"]) for x in r.result["results"]}
        self.world.look()
        return told

    def asks(self, kind: str, *items: dict[str, Any], request_id: str = "") -> dict[str, tuple[int, str | None]]:
        self.asked += 1
        rid = request_id or f"r{self.asked}"
        self.hear(Requested(ForwardedRequest(rid, 1, 101, kind, {"topics": list(items), "principal": "User:kim"})))
        return self.answers[rid]

    def moves(self, **wanted: list[int] | None) -> dict[str, int]:
        items = [
            {"name": f"flights-{p[1:]}", "topic": "flights", "partition": int(p[1:]), "replicas": r}
            for p, r in wanted.items()
        ]
        return {name: error for name, (error, _) in self.asks("alter_reassignments", *items).items()}

    def state(self, index: int = 0) -> PartitionState:
        return self.world.state("flights", index)

    def works(self) -> None:
        """The worker looks, the controller reads what it left."""
        for move_id in advancing.working_moves():
            advancing.advance_move(move_id)
        self.hear(DesiredRead(assignments=tuple(forwarded.placed(p) for p in advancing.ordered_parts())))

    def copied(self, index: int = 0) -> None:
        state = self.state(index)
        self.world.put("flights", index, isr=tuple(dict.fromkeys((*state.isr_ids, *state.replicas))))
        self.hear(self.seen(1, 2, 3))


@pytest.fixture
def acting(world: World) -> Acting:
    world.topic("flights", (1, 2), (2, 3))
    return Acting(world)


def test_a_clients_reassignment_is_a_move_that_has_begun_when_it_is_answered(acting: Acting) -> None:
    assert acting.moves(p0=[3, 2]) == {"flights-0": 0}
    assert (acting.state().adding, acting.state().removing, acting.state().target) == ((3,), (1,), (3, 2))
    move = Move.objects.get()
    assert (move.origin, move.state, move.who) == ("client", "running", "User:kim at broker 1")
    assert move.parts.get().before["replicas"] == [1, 2]
    acting.works()
    assert move.parts.get().state == "copying"
    acting.copied()
    acting.works()
    assert Move.objects.get().state == "done"
    assert acting.state().replicas == (3, 2)
    assert Change.objects.get(verb="move.start").outcome == "confirmed"


def test_null_cancels_and_the_old_placement_is_back_exactly(acting: Acting) -> None:
    before = acting.state().replicas
    acting.moves(p0=[3, 2])
    acting.works()
    assert acting.moves(p0=None, p1=None) == {"flights-0": 0, "flights-1": 85}
    assert acting.state().target == before
    for _ in range(3):
        acting.copied()
        acting.works()
    assert acting.state().replicas == before
    assert (Move.objects.get().state, MovePartition.objects.get().state) == ("cancelled", "put_back")


def test_an_operators_part_is_cancelled_by_a_client_and_the_rest_goes_on(acting: Acting) -> None:
    move = moves.plan_move({"kind": "topic", "topic": "flights", "brokers": [1, 3]}, who="alice")
    moves.start_move(move.pk, who="alice")
    acting.works()
    assert acting.moves(p0=None) == {"flights-0": 0}
    for _ in range(3):
        acting.copied(0)
        acting.copied(1)
        acting.works()
    states = {p.partition: p.state for p in move.parts.all()}
    assert states == {0: "put_back", 1: "done"}
    move.refresh_from_db()
    assert (move.state, "cancelled by a client" in move.note) == ("done", True)


def test_a_cancel_that_would_leave_nobody_to_lead_is_refused(acting: Acting) -> None:
    acting.world.topic("lone", (1,))

    def asks(replicas: list[int] | None) -> tuple[int, str | None]:
        item = {"name": "lone-0", "topic": "lone", "partition": 0, "replicas": replicas}
        return acting.asks("alter_reassignments", item)["lone-0"]

    assert asks([2, 3]) == (0, None)
    acting.world.put("lone", 0, isr=(2,), leader=2, leader_incarnation=102)  # the only old replica has fallen out
    code, text = asks(None)
    assert (code, "without a leader" in (text or "")) == (39, True)
    assert acting.world.state("lone", 0).target == (2, 3)


def test_a_partition_of_another_move_is_refused_with_its_number(acting: Acting) -> None:
    acting.moves(p0=[3, 2])
    number = Move.objects.get().pk
    answer = acting.asks(
        "alter_reassignments", {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [1, 3]}
    )
    assert answer["flights-0"][0] == 60
    assert f"move {number}" in (answer["flights-0"][1] or "")
    assert acting.moves(p0=[3, 2]) == {"flights-0": 0}  # the same again is no quarrel
    assert Move.objects.count() == 1


def test_each_partition_is_judged_by_itself(acting: Acting) -> None:
    acting.hear(acting.seen(1, 2))  # broker 3 dies
    told = acting.moves(p0=[3, 2], p1=[2, 1], p7=[1])
    assert told == {"flights-0": 39, "flights-1": 0, "flights-7": 3}
    assert acting.moves(p0=[1, 1]) == {"flights-0": 39}
    assert acting.moves(p0=[]) == {"flights-0": 39}
    assert acting.moves(p0=[1, 2]) == {"flights-0": 0}  # it is so already
    assert MovePartition.objects.count() == 1


def test_asked_twice_it_is_written_once_and_answered_twice(acting: Acting) -> None:
    item = {"name": "flights-0", "topic": "flights", "partition": 0, "replicas": [3, 2]}
    assert acting.asks("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    acting.take_office(3)  # its successor finds the same question
    assert acting.asks("alter_reassignments", item, request_id="same")["flights-0"][0] == 0
    assert Move.objects.count() == 1


def test_an_order_for_what_is_there_fences_off_an_earlier_one(acting: Acting) -> None:
    move = moves.plan_move({"kind": "topic", "topic": "flights", "brokers": [1, 3]}, who="alice", parts_in_flight_max=1)
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    (late,) = [forwarded.placed(p) for p in advancing.ordered_parts()]  # read, and not carried out yet
    moves.cancel_move(move.pk, who="alice")
    acting.works()
    acting.works()
    acting.works()
    move.refresh_from_db()
    assert move.state == "cancelled"
    before = acting.state(late.partition)
    acting.hear(DesiredRead(assignments=(late,)))
    assert acting.state(late.partition) == before
