"""The objects with the greatest values: read only."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import top as selectors

TOP = serializers.shape(selectors.TopList)


class TopQuery(drf.Serializer[object]):
    of = drf.ChoiceField(choices=[(o.value, o.value) for o in selectors.TopOf])
    by = drf.CharField(
        default="", allow_blank=True, help_text="A metric of this kind; the error of an unknown one lists them."
    )
    limit = drf.IntegerField(default=selectors.TOP_DEFAULT, min_value=1, max_value=selectors.TOP_MAX)


class TopView(InputMixin):
    @extend_schema(parameters=[TopQuery], responses={200: TOP})
    def get(self, request: Request) -> Response:
        """The objects with the greatest values of a metric, each with its share of the sum over all objects. `of=clients` and `of=principals` wait for
        brokers, at most two seconds."""
        query = self.query(TopQuery)
        return Response(TOP(selectors.top_list(query["of"], query["by"], query["limit"])).data)
