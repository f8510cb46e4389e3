"""Moves: plan, start, throttle, end; their partitions, history and metrics."""

from __future__ import annotations

from collections.abc import Callable

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Move
from controlplane.selectors import move_loads, move_parts
from controlplane.selectors import moves as selectors
from controlplane.selectors.entity_tags import move_tag
from controlplane.selectors.paging import ListOrder
from controlplane.services import brokers, schedules, tails
from controlplane.services import moves as services
from controlplane.services.adaptive_throttle import bounds_of
from controlplane.services.common import needs_reason

CAPS = ("parts_in_flight_max", "parts_per_broker_max", "throttle_bytes_per_s")
DELETION = serializers.shape(tails.DeletionPreview)
LATENCY = serializers.shape(move_loads.LatencyRow)
LOAD = serializers.shape(move_loads.MoveBrokerRow)
LOAD_ORDER = ListOrder(
    unique=("broker_id",), others=("parts_in", "bytes_in", "bytes_in_done", "bytes_per_s", "parts_out", "bytes_out")
)
MOVE = serializers.shape(selectors.MoveRow)
PART = serializers.shape(move_parts.MovePartRow)
SAMPLE = serializers.shape(selectors.SampleRow)
TRANSITION = serializers.shape(selectors.TransitionRow)


class MoveViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = Move.objects.all()
    serializer_class = MOVE
    filterset_class = selectors.MoveFilter
    page_of = staticmethod(selectors.move_page)
    lookup_url_kwarg = "move_id"
    tag_of = staticmethod(move_tag)
    noun = "move"

    def get_row(self, key: int) -> selectors.MoveRow | None:
        return selectors.move_row(key)

    @extend_schema(request=serializers.MoveCreate, responses={201: MOVE, 200: OpenApiTypes.OBJECT})
    def create(self, request: Request) -> Response:
        """Plan a move (with `dry`: only the preview, 200; with `start`: start it immediately)."""
        body = self.body(serializers.MoveCreate)
        scope = services.parse_scope(body["scope"])
        if body["dry"]:
            return Response(serializers.RowSerializer(services.preview_move(scope, body["throttle_bytes_per_s"])).data)
        needs_reason(body["comment"])
        caps = {k: body[k] for k in (*CAPS, "mode", "override", "compare", "deadline_hours", "handover")}
        move = services.plan_move(scope, actor=self.actor, comment=body["comment"], **caps)
        if body["start"]:
            services.start_move(move.pk, actor=self.actor, comment=body["comment"])
        return Response(self.get_serializer(self.get_row(move.pk)).data, status=201)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, move_id: int) -> Response:
        """Approve a planned move. A move that overrides a safety check needs an approval request instead."""
        return self._act(services.approve_move)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, move_id: int) -> Response:
        """Start a planned or approved move. It fails if a partition has changed since the plan was made."""
        return self._act(services.start_move)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, move_id: int) -> Response:
        """Start no further copy. Copies in flight finish."""
        return self._act(services.pause_move)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, move_id: int) -> Response:
        """Continue a paused move."""
        return self._act(services.resume_move)

    @extend_schema(request=serializers.MoveEnd)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, move_id: int) -> Response:
        """Cancel the move: partitions in flight return to their old replicas, finished ones stay. Needs a reason. A drained broker stays
        cordoned and demoted, unless `uncordon` is true."""
        return self._end(services.cancel_move)

    @extend_schema(request=serializers.MoveEnd)
    @action(detail=True, methods=["post"])
    def roll_back(self, request: Request, move_id: int) -> Response:
        """Return every submitted partition to its old replicas, also after the end of the move. Needs a reason. A drained broker stays
        cordoned and demoted, unless `uncordon` is true."""
        return self._end(services.roll_back_move)

    def _act(self, service: Callable[..., object]) -> Response:
        """A view of an operation without a required reason: it is easy to undo, or its plan already has a reason."""
        row = self.get_object()
        service(row.id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    def _end(self, service: Callable[..., Move]) -> Response:
        row = self.get_object()
        brokers.end_drain(service, row.id, actor=self.actor, **self.body(serializers.MoveEnd))
        return self.row()

    @extend_schema(request=serializers.MoveThrottle)
    @action(detail=True, methods=["post"])
    def throttle(self, request: Request, move_id: int) -> Response:
        """Change or remove the throttle, also during copying."""
        self.get_object()
        v = self.body(serializers.MoveThrottle)
        adaptive = None if v["adaptive"] is None else bounds_of(v["adaptive"])
        services.throttle_move(
            move_id, v["throttle_bytes_per_s"], adaptive=adaptive, actor=self.actor, comment=v["comment"]
        )
        return self.row()

    @extend_schema(request=serializers.MoveSchedule)
    @action(detail=True, methods=["post"])
    def schedule(self, request: Request, move_id: int) -> Response:
        """Set a window. Outside the window no copy starts. At its stop-by time copies in flight finish."""
        self.get_object()
        v = self.body(serializers.MoveSchedule)
        schedules.schedule_move(move_id, v["window"], actor=self.actor, comment=v["comment"])
        return self.row()

    @extend_schema(responses=PART(many=True))
    @action(
        detail=True,
        serializer_class=PART,
        filterset_class=move_parts.MovePartFilter,
        page_of=move_parts.part_page,
        ordering="topic",
    )
    def parts(self, request: Request, move_id: int) -> Response:
        """The partitions of the move, each with its state, its progress and the cause of a delay. `sort=state`: rejected and
        blocked ones first, then active ones, waiting ones, and ended ones."""
        self.get_object()
        return self.pages(move_parts.parts_of_move(move_id))

    @extend_schema(responses=TRANSITION(many=True))
    @action(
        detail=True,
        serializer_class=TRANSITION,
        filterset_class=None,
        page_of=selectors.transition_page,
        ordering="at",
    )
    def history(self, request: Request, move_id: int) -> Response:
        """Every state transition of the move, the oldest first: actor, time, reason."""
        self.get_object()
        return self.pages(selectors.transitions_of_move(move_id))

    @extend_schema(responses=SAMPLE(many=True))
    @action(detail=True, serializer_class=SAMPLE, filterset_class=None, list_order=ListOrder(unique=("at",)))
    def samples(self, request: Request, move_id: int) -> Response:
        """Bytes left and copied over the life of the move."""
        self.get_object()
        return self.computed(selectors.move_samples(move_id))

    @extend_schema(responses=LOAD(many=True))
    @action(detail=True, serializer_class=LOAD, filterset_class=None, list_order=LOAD_ORDER)
    def brokers(self, request: Request, move_id: int) -> Response:
        """Bytes and replicas that each broker receives and sends."""
        self.get_object()
        return self.computed(move_loads.move_brokers(move_loads.move_kinds(move_id)))

    @extend_schema(responses=LATENCY(many=True))
    @action(
        detail=True,
        serializer_class=LATENCY,
        filterset_class=None,
        list_order=ListOrder(unique=("at",)),
        url_path="producer-latency",
    )
    def producer_latency(self, request: Request, move_id: int) -> Response:
        """Latency of producers at the slowest of the brokers that the move loads, over its whole life, thinned."""
        self.get_object()
        return self.computed(move_loads.producer_latency(move_id))

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=True)
    def plan(self, request: Request, move_id: int) -> Response:
        """The move as Kafka's reassignment files: {"proposed": .., "previous": ..}. Each is a valid scope of a new move."""
        self.get_object()
        return Response(selectors.kafka_plans(move_id))

    @action(detail=True, serializer_class=DELETION, url_path="delete-records")
    def delete_records(self, request: Request, move_id: int) -> Response:
        """For a move without old data: the records that a deletion would delete now, below the start of the new replicas, and the groups that have
        not read them. The deletion needs two people: it is proposed (kind move.delete_records) and approved."""
        self.get_object()
        return Response(self.get_serializer(tails.deletion_preview(move_id)).data)
