"""Thresholds of alerts: list, read, change. Administrators change the values for the cluster, operators those for single objects."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import AlertThreshold
from controlplane.selectors import alert_thresholds as selectors
from controlplane.selectors import entity_tags
from controlplane.selectors.paging import ListOrder
from controlplane.services import alert_thresholds as services

THRESHOLD = serializers.shape(selectors.AlertThresholdRow)
OVERRIDE = serializers.shape(selectors.ThresholdOverrideRow)
SUBJECT = OpenApiParameter(
    "subject", str, OpenApiParameter.PATH, description="Id of a broker, or name of a group or topic."
)


class AlertThresholdAlter(serializers.Comment):
    value = drf.FloatField(allow_null=True, help_text="In the unit of the threshold; null: the default.")


class ThresholdOverrideSet(serializers.Comment):
    value = drf.FloatField(help_text="In the unit of the threshold.")


class AlertThresholdViewSet(RetrieveModelMixin, RowViewSet):
    """Values that decide when there is an alert. A change applies within seconds."""

    queryset = AlertThreshold.objects.all()
    serializer_class = THRESHOLD
    lookup_url_kwarg = "name"
    lookup_value_converter = "str"
    noun = "alert threshold"
    tag_of = staticmethod(entity_tags.threshold_tag)

    def get_row(self, key: str) -> selectors.AlertThresholdRow | None:
        return selectors.threshold_row(key)

    def list(self, request: Request) -> Response:
        return self.computed(selectors.threshold_list())

    @extend_schema(request=AlertThresholdAlter, responses={200: THRESHOLD})
    def partial_update(self, request: Request, name: str) -> Response:
        """Set the threshold, or reset it with null. Needs an administrator."""
        services.check_administrator(request.user, name)
        self.get_object()
        values = self.body(AlertThresholdAlter)
        services.alter_threshold(name, values["value"], actor=self.actor, comment=values["comment"])
        return self.row()

    @extend_schema(responses=OVERRIDE(many=True))
    @action(
        detail=True,
        serializer_class=OVERRIDE,
        filterset_class=None,
        list_order=ListOrder(unique=("subject",), others=("value", "changed_by")),
    )
    def overrides(self, request: Request, name: str) -> Response:
        """The objects with a separate value, which takes precedence over the value for the cluster: brokers, groups or topics (`objects` of the
        threshold)."""
        return self.computed(self.get_object().overrides)

    @extend_schema(parameters=[SUBJECT], request=ThresholdOverrideSet, responses={200: THRESHOLD})
    @action(detail=True, methods=["put"], url_path="overrides/<path:subject>")
    def override(self, request: Request, name: str, subject: str) -> Response:
        """Set the threshold for one object. The object need not exist."""
        self.get_object()
        values = self.body(ThresholdOverrideSet)
        services.override_threshold(name, subject, values["value"], actor=self.actor, comment=values["comment"])
        return self.row()

    @extend_schema(parameters=[SUBJECT], request=serializers.Comment, responses={200: THRESHOLD})
    @override.mapping.delete
    def end_override(self, request: Request, name: str, subject: str) -> Response:
        """The value of the cluster applies to the object again."""
        self.get_object()
        values = self.body(serializers.Comment)
        services.override_threshold(name, subject, None, actor=self.actor, comment=values["comment"])
        return self.row()
