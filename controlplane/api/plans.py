"""Stored plans: saved, compared, approved by digest, started; Kafka's JSON as input and output."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import Http404, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Plan
from controlplane.selectors import moves
from controlplane.selectors import plans as selectors
from controlplane.selectors.entity_tags import plan_tag
from controlplane.selectors.paging import Page, PageStart
from controlplane.services import moves as move_services
from controlplane.services import plans as services
from controlplane.services import schedules
from controlplane.services.move_planning import MoveCaps, parse_scope

DIFFERENCE = serializers.shape(selectors.PlanDifference)
MOVE = serializers.shape(moves.MoveRow)
PART = serializers.shape(selectors.PlanPartRow)
PLAN = serializers.shape(selectors.PlanRow)


def _part_page(rows: QuerySet[Plan], *, page: PageStart, per_page: int, **_: object) -> Page[selectors.PlanPartRow]:
    """`rows`: the plan alone. Its parts are stored in blocks, not as rows, in the order of topics."""
    return selectors.plan_parts(rows.get().pk, page=page, per_page=per_page)


class PlanViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = Plan.objects.all()
    serializer_class = PLAN
    filterset_class = selectors.PlanFilter
    page_of = staticmethod(selectors.plan_page)
    lookup_url_kwarg = "plan_id"
    tag_of = staticmethod(plan_tag)
    noun = "plan"

    def get_row(self, key: int) -> selectors.PlanRow | None:
        return selectors.plan_row(key)

    @extend_schema(request=serializers.PlanCreate, responses={201: PLAN})
    def create(self, request: Request) -> Response:
        """Plan a scope, or import Kafka's reassignment file, and store the plan. No replica is moved, and no partition is reserved."""
        v = self.body(serializers.PlanCreate)
        row = services.save_plan(
            parse_scope(v["scope"]), name=v["name"], actor=self.actor, comment=v["comment"], override=v["override"]
        )
        return Response(self.get_serializer(self.get_row(row.pk)).data, status=201)

    @extend_schema(request=serializers.Comment, responses={204: None})
    def destroy(self, request: Request, plan_id: int) -> Response:
        """Remove the plan from the list; its rows stay."""
        self.get_object()
        services.drop_plan(plan_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(status=204)

    @extend_schema(responses=PART(many=True))
    @action(detail=True, serializer_class=PART, filterset_class=None, page_of=_part_page)
    def parts(self, request: Request, plan_id: int) -> Response:
        """The partitions of the plan, with their replicas before and after."""
        self.get_object()
        return self.pages(Plan.objects.filter(pk=plan_id))

    @extend_schema(parameters=[serializers.PlanFileQuery], responses=OpenApiTypes.OBJECT)
    @action(detail=True)
    def file(self, request: Request, plan_id: int) -> StreamingHttpResponse:
        """The plan as Kafka's reassignment file, which is also a valid scope of a plan or a move."""
        self.get_object()
        previous = self.query(serializers.PlanFileQuery)["previous"]
        pieces = selectors.kafka_file(plan_id, previous=previous)
        response = StreamingHttpResponse(pieces, content_type="application/json")
        name = f"plan-{plan_id}{'-previous' if previous else ''}.json"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response

    @extend_schema(parameters=[serializers.PlanDifferenceQuery])
    @action(detail=True, serializer_class=DIFFERENCE)
    def difference(self, request: Request, plan_id: int) -> Response:
        """The differences of the plan from another plan, or from the current state."""
        self.get_object()
        other = self.query(serializers.PlanDifferenceQuery)["other"]
        if other is not None and selectors.plan_row(other) is None:
            raise Http404(f"There is no plan {other}.")
        return Response(self.get_serializer(selectors.difference(plan_id, other)).data)

    @extend_schema(request=serializers.PlanApprove)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, plan_id: int) -> Response:
        """Approve exactly the plan of this digest. A move made of the plan is approved, too."""
        self.get_object()
        v = self.body(serializers.PlanApprove)
        services.approve_plan(plan_id, v["digest"], actor=self.actor, comment=v["comment"])
        return self.row()

    @extend_schema(request=serializers.PlanMove, responses={201: MOVE})
    @action(detail=True, methods=["post"], serializer_class=MOVE)
    def move(self, request: Request, plan_id: int) -> Response:
        """Make a move of exactly these parts. Rejected if the placement of a partition changed since."""
        self.get_object()
        body = self.body(serializers.PlanMove)
        caps = MoveCaps(
            parts_in_flight_max=body["parts_in_flight_max"],
            parts_per_broker_max=body["parts_per_broker_max"],
            throttle_bytes_per_s=body["throttle_bytes_per_s"],
            compare=body["compare"],
        )
        schedules.check(schedules.parse_window(body["window"]))
        move = services.move_of(plan_id, body["digest"], actor=self.actor, comment=body["comment"], caps=caps)
        if body["window"] is not None:
            schedules.schedule_move(move.pk, body["window"], actor=self.actor, comment=body["comment"])
        if body["start"]:
            move_services.start_move(move.pk, actor=self.actor, comment=body["comment"])
        return Response(self.get_serializer(moves.move_row(move.pk)).data, status=201)
