"""Alerts, incidents, silences, and metrics for a monitoring system."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.models import Alert, AlertSilence
from controlplane.selectors import alerts, incidents, metrics
from controlplane.services import incidents as services

INCIDENT = serializers.shape(incidents.IncidentRow)
DETAIL = serializers.shape(incidents.IncidentDetail)
SILENCE = serializers.shape(alerts.SilenceRow)


class NoteCreate(drf.Serializer[object]):
    text = drf.CharField(max_length=services.NOTE_CHARS_MAX)


class SilenceCreate(serializers.RequiredComment):
    kind = drf.CharField(help_text="A kind of alert.")
    subject = drf.CharField(
        default=None,
        allow_null=True,
        allow_blank=True,
        help_text="Id of a broker, move or job, or name of a group; null: every object of the kind.",
    )
    minutes = drf.IntegerField(help_text="Duration from now on.")


class AlertViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    """Open alerts, or alerts that ended within the last week. Alerts are as old as the overview: while its age grows, no new alerts are written."""

    queryset = Alert.objects.all()
    filterset_class = alerts.AlertFilter
    page_of = staticmethod(alerts.alert_page)
    ordering = "-since"
    lookup_url_kwarg = "alert_id"
    noun = "alert"

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(alerts.AlertRow) if self.action == "list" else DETAIL

    def get_row(self, key: int) -> incidents.IncidentDetail | None:
        return incidents.incident_detail(key)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, alert_id: int) -> Response:
        """Record that this user works on the alert. 409 if it is acknowledged already."""
        self.get_object()
        services.acknowledge(alert_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, alert_id: int) -> Response:
        """Withdraw the acknowledgement."""
        self.get_object()
        services.withdraw(alert_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=NoteCreate)
    @action(detail=True, methods=["post"])
    def notes(self, request: Request, alert_id: int) -> Response:
        """Add a note to the timeline."""
        self.get_object()
        services.add_note(alert_id, self.body(NoteCreate)["text"], actor=self.actor)
        return self.row()


class IncidentView(InputMixin):
    @extend_schema(responses=INCIDENT(many=True))
    def get(self, request: Request) -> Response:
        """Open alerts grouped by cause: the most severe incident first, silenced ones last. GET /alerts/{alert_id} has the context of one."""
        return Response(INCIDENT(incidents.incident_list(), many=True).data)


class SilenceViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    """Silences that ended are listed, too. A silence marks alerts and puts their incidents last. It does not end them."""

    queryset = AlertSilence.objects.all()
    serializer_class = SILENCE
    page_of = staticmethod(alerts.silence_page)
    ordering = "-ends_at"
    lookup_url_kwarg = "silence_id"
    noun = "silence"

    def get_row(self, key: int) -> alerts.SilenceRow | None:
        return alerts.silence_row(key)

    @extend_schema(request=SilenceCreate, responses={201: SILENCE})
    def create(self, request: Request) -> Response:
        """Silence the alerts of a kind and an object for some minutes."""
        made = services.silence(actor=self.actor, **self.body(SilenceCreate))
        return Response(self.get_serializer(self.get_row(made.pk)).data, status=201)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def end(self, request: Request, silence_id: int) -> Response:
        """End the silence now."""
        self.get_object()
        services.end_silence(silence_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()


class ProcessStartView(InputMixin):
    @extend_schema(request=serializers.Comment, responses={204: None})
    def post(self, request: Request, name: str) -> Response:
        """Start a stopped process of the local cluster, such as broker-2. 409 unless a supervisor runs and has stopped the process."""
        services.start_process(name, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(status=204)


class MetricsView(InputMixin):
    @extend_schema(parameters=[serializers.MetricsQuery], responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        """Every metric in Prometheus' text format, read from rows. Unknown metrics are omitted."""
        requested = self.query(serializers.MetricsQuery)
        return HttpResponse(metrics.exposition(topics=requested["topics"]), content_type=CONTENT_TYPE_LATEST)
