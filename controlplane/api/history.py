"""Recorded history of metrics."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.renderers import CsvRenderer
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import history as selectors

HISTORY = serializers.shape(selectors.MetricHistory)


class HistoryQuery(drf.Serializer[object]):
    subject = drf.CharField(
        help_text="cluster, topic:NAME, group:ID, share_group:ID, broker:ID or partition:TOPIC:INDEX."
    )
    metric = drf.CharField(help_text="A metric of this kind of subject; the error of an unknown one lists them.")
    since = drf.DateTimeField(
        default=None, allow_null=True, help_text="Time (ISO 8601); default: an hour before `until`."
    )
    until = drf.DateTimeField(default=None, allow_null=True, help_text="Time (ISO 8601); default: now.")


class HistoryView(InputMixin):
    def get_renderers(self) -> list[BaseRenderer]:
        return [*super().get_renderers(), CsvRenderer()]

    @extend_schema(parameters=[HistoryQuery], responses={200: HISTORY})
    def get(self, request: Request) -> Response:
        """A metric over time: values every 10 s of the last day, averages of a minute of 30 days, and older ones from the lake (job `history`), as at most 450
        points. A range has at most 366 days.
        404: this metric of the subject was never recorded."""
        given = self.query(HistoryQuery)
        found = selectors.metric_history(**given)
        if found is None:
            raise Http404(f"There is no history of {given['metric']!r} of {given['subject']!r}.")
        return Response(HISTORY(found).data)
