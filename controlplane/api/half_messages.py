"""Undecided half messages: those of all topics, and the view of one topic that `TopicViewSet` mounts. A decision is an approval request."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.delayed_messages import NO_LIST
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import RowViewSet
from controlplane.selectors import half_messages as selectors
from controlplane.selectors import undecided_half_messages

HALF_MESSAGES = serializers.shape(selectors.HalfMessageList)
PAGE = page_shape(undecided_half_messages.UndecidedPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]


class UndecidedQuery(PageQuery):
    topic = drf.CharField(default="", allow_blank=True, help_text="Part of the name of a topic.")
    state = drf.ChoiceField(
        choices=["", *(s.value for s in undecided_half_messages.HalfState)],
        default="",
        help_text="unchecked: no check was sent. checked: its producers received a check. overdue: older than the threshold half_undecided of its topic. "
        "expiring: the last check was not answered.",
    )
    query = drf.CharField(default="", allow_blank=True, trim_whitespace=False, help_text="Part of the half id.")


class HalfMessageViewSet(RowViewSet):
    """Undecided half messages of all topics. They are decided by approval requests (`/proposals`, kinds half.commit and half.rollback)."""

    serializer_class = serializers.shape(undecided_half_messages.UndecidedRow)
    pagination_class = None
    noun = "half message"

    @extend_schema(parameters=[UndecidedQuery], responses={200: ONE_PAGE}, filters=False)
    def list(self, request: Request) -> Response:
        """Undecided half messages of all topics, the oldest first. `sort`: written_ms, topic, checks, half_id, state. At most 500 partitions are read, those
        of the topics with the oldest messages first, each for its oldest 100 messages. `missing` names the partitions whose leader did not respond."""
        return page_response(request, undecided_half_messages.undecided_page(**self.query(UndecidedQuery)))


class HalfMessageParameters(drf.Serializer[object]):
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
        their number. `missing` names the partitions whose leader did not respond. They are decided by approval requests (`/proposals`, kinds
        half.commit and half.rollback)."""
        v = self.query(HalfMessageParameters)
        chosen = selectors.HalfFilter(v["id_contains"], v["age_ms_min"], v["checks_min"])
        found = selectors.undecided_messages(name, v["partition"], v["from_offset"], chosen)
        if found is None:
            raise Http404(f"Topic {name!r} has no half messages; weir.half.enable=true creates their topic.")
        return Response(HALF_MESSAGES(found).data)
