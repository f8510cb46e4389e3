"""Undecided half messages of a topic: the view that `TopicViewSet` mounts. A decision is a proposal."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.delayed_messages import NO_LIST
from controlplane.api.viewsets import RowViewSet
from controlplane.selectors import half_messages as selectors

HALF_MESSAGES = serializers.shape(selectors.HalfMessageList)


class HalfMessageParameters(drf.Serializer[Any]):
    partition = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Only this partition.")
    from_offset = drf.IntegerField(default=0, min_value=0, help_text="Offsets from this one on.")
    id_contains = drf.CharField(default="", allow_blank=True, trim_whitespace=False, help_text="Part of the half id.")
    age_ms_min = drf.IntegerField(default=0, min_value=0, help_text="Smallest age, in milliseconds.")
    checks_min = drf.IntegerField(default=0, min_value=0, help_text="Smallest number of checks.")


class HalfMessageViews(RowViewSet):
    @extend_schema(parameters=[HalfMessageParameters], responses={200: HALF_MESSAGES})
    @action(detail=True, url_path="half-messages", tag_of=None, **NO_LIST)
    def half_messages(self, request: Request, name: str) -> Response:
        """Undecided half messages of a topic with `weir.half.enable`, the oldest first. The filters search the oldest 500 of each partition; `searched` is
        their number. `missing` names the partitions whose leader did not answer. They are decided by proposals (kinds half.commit and half.rollback)."""
        v = self.query(HalfMessageParameters)
        chosen = selectors.HalfFilter(v["id_contains"], v["age_ms_min"], v["checks_min"])
        found = selectors.undecided(name, v["partition"], v["from_offset"], chosen)
        if found is None:
            raise Http404(f"Topic {name!r} has no half messages; weir.half.enable=true creates their topic.")
        return Response(HALF_MESSAGES(found).data)
