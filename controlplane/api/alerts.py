"""What is wrong now, and figures for a monitoring system."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, out, reads
from controlplane.selectors import alerts, metrics


class Alerts(Door):
    @reads(shapes.page_of(alerts.AlertRow), shapes.AlertQuery)
    def get(self, request: Request) -> Response:
        """Open alerts, or those that ended within the last week. They are as old as the overview says; while its age grows, nobody writes any."""
        return out(alerts.alert_list(**self.listing(shapes.AlertQuery, "-since")))


class Metrics(Door):
    @extend_schema(
        parameters=[shapes.MetricsQuery], responses={(200, "text/plain"): OpenApiTypes.STR, 401: shapes.Error}
    )
    def get(self, request: Request) -> HttpResponse:
        """Every figure in Prometheus' text format, read from rows: what is not known is left out."""
        asked = self.read(shapes.MetricsQuery)
        return HttpResponse(metrics.exposition(topics=asked["topics"]), content_type=CONTENT_TYPE_LATEST)
