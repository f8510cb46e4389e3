"""Moves and replica recoveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, out_list, reads, writes
from controlplane.selectors import move_loads, moves
from controlplane.services import moves as services
from controlplane.services import recovery, schedules, tails
from controlplane.services.common import needs_reason

CAPS = ("parts_in_flight_max", "parts_per_broker_max", "throttle_bytes_per_s")
COSTLY = ("cancel", "roll_back")
"""Acts that want a reason. Starting has the plan's; pausing and throttling are taken back as easily as they are done."""

ACTS: dict[str, Callable[..., Any]] = {
    "approve": services.approve_move,
    "start": services.start_move,
    "pause": services.pause_move,
    "resume": services.resume_move,
    "cancel": services.cancel_move,
    "roll_back": services.roll_back_move,
}


class Moves(Door):
    @reads(shapes.page_of(moves.MoveRow), shapes.WorkingQuery)
    def get(self, request: Request) -> Response:
        return out(moves.move_list(**self.listing(shapes.WorkingQuery, "-id")))

    @writes(shapes.MoveCreate, shapes.shape(moves.MoveRow), 201)
    def post(self, request: Request) -> Response:
        """Plan a move (with `dry`: only the preview, 200; with `start`: start it at once)."""
        v = self.body(shapes.MoveCreate)
        if v["dry"]:
            return out(services.preview_move(v["scope"], v["throttle_bytes_per_s"]))
        needs_reason(v["why"])
        caps = {k: v[k] for k in (*CAPS, "mode", "override", "compare", "deadline_hours", "handover")}
        move = services.plan_move(v["scope"], who=self.who, why=v["why"], **caps)
        if v["start"]:
            services.start_move(move.pk, who=self.who, why=v["why"])
        return out(found(moves.move_row(move.pk), f"move {move.pk}"), 201)


class Move(Door):
    @reads(shapes.shape(moves.MoveRow))
    def get(self, request: Request, move_id: int) -> Response:
        return out(found(moves.move_row(move_id), f"move {move_id}"))


class MoveParts(Door):
    @reads(shapes.page_of(moves.MovePartRow), shapes.PartQuery)
    def get(self, request: Request, move_id: int) -> Response:
        found(moves.move_row(move_id), f"move {move_id}")
        v = self.listing(shapes.PartQuery, "topic")
        v.pop("query")
        return out(moves.move_parts(move_id, **v))


class MoveStory(Door):
    @reads(shapes.shape(moves.TransitionRow)(many=True))
    def get(self, request: Request, move_id: int) -> Response:
        """Every change of its state: who, when, why."""
        found(moves.move_row(move_id), f"move {move_id}")
        return out_list(moves.move_story(move_id))


class MoveSamples(Door):
    @reads(shapes.shape(moves.SampleRow)(many=True))
    def get(self, request: Request, move_id: int) -> Response:
        """Bytes left and copied over its life."""
        found(moves.move_row(move_id), f"move {move_id}")
        return out_list(moves.move_samples(move_id))


class MoveBrokers(Door):
    @reads(shapes.shape(move_loads.MoveBrokerRow)(many=True))
    def get(self, request: Request, move_id: int) -> Response:
        """What comes to each broker and what it is rid of."""
        found(moves.move_row(move_id), f"move {move_id}")
        return out_list(move_loads.move_brokers(move_loads.move_kinds(move_id)))


class MoveWaits(Door):
    @reads(shapes.shape(move_loads.WaitRow)(many=True))
    def get(self, request: Request, move_id: int) -> Response:
        """How long producers waited at the worst of the brokers it burdens, over its whole life, thinned."""
        found(moves.move_row(move_id), f"move {move_id}")
        return out_list(move_loads.move_waits(move_id))


class MovePlan(Door):
    @reads({"type": "object"})
    def get(self, request: Request, move_id: int) -> Response:
        """As Kafka's own files of a reassignment: {"wanted": .., "previous": ..}. Either is a scope of a new move as it stands."""
        found(moves.move_row(move_id), f"move {move_id}")
        return Response(moves.kafka_plans(move_id))


class MoveThrottle(Door):
    @writes(shapes.MoveThrottle, shapes.shape(moves.MoveRow))
    def post(self, request: Request, move_id: int) -> Response:
        """Slower, faster or not held back, also while it copies."""
        found(moves.move_row(move_id), f"move {move_id}")
        v = self.body(shapes.MoveThrottle)
        services.throttle_move(move_id, v["throttle_bytes_per_s"], adaptive=v["adaptive"], who=self.who, why=v["why"])
        return out(found(moves.move_row(move_id), f"move {move_id}"))


class MoveSchedule(Door):
    @writes(shapes.MoveSchedule, shapes.shape(moves.MoveRow))
    def post(self, request: Request, move_id: int) -> Response:
        """A window outside which no copy begins; at its stop-by those under way finish."""
        found(moves.move_row(move_id), f"move {move_id}")
        v = self.body(shapes.MoveSchedule)
        schedules.schedule_move(move_id, v["window"], who=self.who, why=v["why"])
        return out(found(moves.move_row(move_id), f"move {move_id}"))


class MoveCut(Door):
    @reads(shapes.shape(tails.CutPreview))
    def get(self, request: Request, move_id: int) -> Response:
        """Of a move without old data: what a cut would delete now, below where the new copies begin, and which groups have not read it. Two people
        cut: it is proposed (kind move.cut) and approved."""
        found(moves.move_row(move_id), f"move {move_id}")
        return out(tails.cut_preview(move_id))


class MoveAct(Door):
    @writes(shapes.Why, shapes.shape(moves.MoveRow))
    def post(self, request: Request, move_id: int, act: str) -> Response:
        """`act`: approve, start, pause, resume, cancel or roll_back."""
        found(moves.move_row(move_id), f"move {move_id}")
        verb = found(ACTS.get(act), f"act {act!r}; use {', '.join(ACTS)}")
        verb(move_id, who=self.who, why=self.body(shapes.Reason if act in COSTLY else shapes.Why)["why"])
        return out(found(moves.move_row(move_id), f"move {move_id}"))


class Recoveries(Door):
    @reads(shapes.page_of(moves.RecoveryRow), shapes.WorkingQuery)
    def get(self, request: Request) -> Response:
        v = self.read(shapes.WorkingQuery)
        return out(moves.recovery_list(page=v["page"], per_page=v["per_page"], working=v["working"]))

    @writes(shapes.RecoveryCreate, shapes.shape(moves.RecoveryRow), 201)
    def post(self, request: Request) -> Response:
        """Throw a replica away and fetch it anew from its leader."""
        v = self.body(shapes.RecoveryCreate)
        row = recovery.recover_replica(v["topic"], v["partition"], v["broker_id"], who=self.who, why=v["why"])
        return out(moves.recovery_shape(row), 201)


class Findings(Door):
    @reads(shapes.page_of(moves.FindingRow), shapes.FindingQuery)
    def get(self, request: Request) -> Response:
        """Damaged copies that brokers tell of; `open` only those that they still tell of."""
        v = self.listing(shapes.FindingQuery, "-id")
        return out(
            moves.finding_list(
                open_only=v["open"],
                topic=v["topic"],
                partition=v["partition"],
                sort=v["sort"],
                page=v["page"],
                per_page=v["per_page"],
            )
        )


class Recovery(Door):
    @reads(shapes.shape(moves.RecoveryRow))
    def get(self, request: Request, recovery_id: int) -> Response:
        return out(found(moves.recovery_row(recovery_id), f"recovery {recovery_id}"))
