"""Plans as artefacts: saved, compared, approved by digest, begun; Kafka's JSON in and out."""

from __future__ import annotations

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, reads, writes
from controlplane.selectors import moves, plans
from controlplane.services import moves as move_services
from controlplane.services import plans as services
from controlplane.services import schedules


class Plans(Door):
    @reads(shapes.page_of(plans.PlanRow), shapes.PlanQuery)
    def get(self, request: Request) -> Response:
        return out(plans.plan_list(**self.listing(shapes.PlanQuery, "-id")))

    @writes(shapes.PlanCreate, shapes.shape(plans.PlanRow), 201)
    def post(self, request: Request) -> Response:
        """Plan a scope, or import Kafka's file, and keep it. Nothing moves, and no partition is held by it."""
        v = self.body(shapes.PlanCreate)
        row = services.save_plan(v["scope"], name=v["name"], who=self.who, why=v["why"], override=v["override"])
        return out(plans.plan_row(row.pk), 201)


class Plan(Door):
    @reads(shapes.shape(plans.PlanRow))
    def get(self, request: Request, plan_id: int) -> Response:
        return out(found(plans.plan_row(plan_id), f"plan {plan_id}"))

    @writes(shapes.Why, None, 204)
    def delete(self, request: Request, plan_id: int) -> Response:
        """Take it out of the list; its rows stay."""
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        services.drop_plan(plan_id, who=self.who, why=self.body(shapes.Why)["why"])
        return Response(status=204)


class PlanParts(Door):
    @reads(shapes.page_of(plans.PlanPartRow), shapes.ListQuery)
    def get(self, request: Request, plan_id: int) -> Response:
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        v = self.read(shapes.ListQuery)
        return out(plans.plan_parts(plan_id, page=v["page"], per_page=v["per_page"]))


class PlanFile(Door):
    @reads({"type": "object"}, shapes.PlanFileQuery)
    def get(self, request: Request, plan_id: int) -> StreamingHttpResponse:
        """As Kafka's own file of a reassignment; it is a scope of a plan or a move as it stands."""
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        previous = self.read(shapes.PlanFileQuery)["previous"]
        pieces = plans.kafka_file(plan_id, previous=previous)
        answer = StreamingHttpResponse(pieces, content_type="application/json")
        name = f"plan-{plan_id}{'-previous' if previous else ''}.json"
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer


class PlanDifference(Door):
    @reads(shapes.shape(plans.Difference), shapes.PlanDifferenceQuery)
    def get(self, request: Request, plan_id: int) -> Response:
        """What it says that another plan does not, or that is not so now."""
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        other = self.read(shapes.PlanDifferenceQuery)["other"]
        if other is not None:
            found(plans.plan_row(other), f"plan {other}")
        return out(plans.difference(plan_id, other))


class PlanApprove(Door):
    @writes(shapes.PlanApprove, shapes.shape(plans.PlanRow))
    def post(self, request: Request, plan_id: int) -> Response:
        """Say yes to exactly the plan of this digest: a move made of it is approved, too."""
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        v = self.body(shapes.PlanApprove)
        services.approve_plan(plan_id, v["digest"], who=self.who, why=v["why"])
        return out(plans.plan_row(plan_id))


class PlanMove(Door):
    @writes(shapes.PlanMove, shapes.shape(moves.MoveRow), 201)
    def post(self, request: Request, plan_id: int) -> Response:
        """Make a move of exactly these parts; refused where a partition was placed anew since."""
        found(plans.plan_row(plan_id), f"plan {plan_id}")
        v = self.body(shapes.PlanMove)
        caps = {k: v[k] for k in ("parts_in_flight_max", "parts_per_broker_max", "throttle_bytes_per_s", "compare")}
        schedules.check(v["window"])
        move = services.move_of(plan_id, v["digest"], who=self.who, why=v["why"], caps=caps)
        if v["window"] is not None:
            schedules.schedule_move(move.pk, v["window"], who=self.who, why=v["why"])
        if v["start"]:
            move_services.start_move(move.pk, who=self.who, why=v["why"])
        return out(moves.move_row(move.pk), 201)
