"""Forecasts of disks and groups: read only."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import forecasts as selectors

FORECASTS = serializers.shape(selectors.Forecasts)


class ForecastsView(InputMixin):
    @extend_schema(responses={200: FORECASTS})
    def get(self, request: Request) -> Response:
        """Forecasts of the times when disks are full and when groups have caught up. They come from the newest finished run of a job `forecast`. Each
        forecast has the interval that contains the true time in 80 % of the cases, and the accuracy of the forecasts of the last 30 days."""
        return Response(FORECASTS(selectors.forecasts()).data)
