"""Thresholds of alerts: list, read, change. Only administrators change them."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import AlertThreshold
from controlplane.selectors import alert_thresholds as selectors
from controlplane.services import alert_thresholds as services

THRESHOLD = serializers.shape(selectors.AlertThresholdRow)


class AlertThresholdAlter(serializers.Comment):
    value = drf.FloatField(allow_null=True, help_text="In the unit of the threshold; null: the default.")


class AlertThresholdViewSet(RetrieveModelMixin, RowViewSet):
    """Values that decide when there is an alert. A change applies within seconds."""

    queryset = AlertThreshold.objects.all()
    serializer_class = THRESHOLD
    lookup_url_kwarg = "name"
    lookup_value_converter = "str"
    noun = "alert threshold"

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
