"""Connected clients as the brokers report them: read only."""

from __future__ import annotations

from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import RowViewSet
from controlplane.selectors import clients as selectors

PAGE = page_shape(selectors.ClientPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]
BROKER_ID_MAX = 2**31 - 1
"""The broker ID of the protocol has 32 bits."""


class ClientQuery(PageQuery):
    query = drf.CharField(
        default="", allow_blank=True, help_text="Part of a client ID, a principal, an address or a software name."
    )
    broker = drf.IntegerField(
        default=None,
        allow_null=True,
        min_value=0,
        max_value=BROKER_ID_MAX,
        help_text="Only connections to this broker.",
    )
    topic = drf.CharField(
        default="",
        allow_blank=True,
        help_text="Only clients that have produced to this topic or read from it since they connected.",
    )
    topic_use = drf.ChoiceField(
        default="",
        allow_blank=True,
        choices=[u.value for u in selectors.TopicUse],
        help_text="With `topic`: only clients that have produced to it, or that have read from it.",
    )
    with_brokers = drf.BooleanField(default=False, help_text="Also the connections between brokers.")


class ClientViewSet(RowViewSet):
    pagination_class = None

    @extend_schema(parameters=[ClientQuery], responses={200: ONE_PAGE}, filters=False)
    def list(self, request: Request) -> Response:
        """Clients that are connected to the brokers, those with the most traffic first. Waits for brokers, at most two seconds. `sort`: bytes_per_s,
        received_bytes_per_s, produced_bytes_per_s, fetched_bytes_per_s, sent_bytes_per_s, cold_bytes_per_s, requests_per_s, connections, client_id, principal, host, software, connected_s, idle_s."""
        return page_response(request, selectors.client_list(**self.query(ClientQuery)))
