"""Transactions as their coordinators report them, and a search for those that hang. They are ended by proposals (kinds transaction.abort and
transaction.fence)."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.domain.transactions import ALL_OPEN, CoordinatorState
from controlplane.selectors import hanging_transactions
from controlplane.selectors import transactions as selectors

DETAIL = serializers.shape(selectors.TransactionDetail)
PAGE = page_shape(selectors.TransactionPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]
SCAN = serializers.shape(hanging_transactions.HangingScan)
MINUTES_MAX = 60 * 24 * 365
"""A year. The filter of the brokers is in milliseconds, 64 bits."""


class TransactionQuery(PageQuery):
    query = drf.CharField(default="", allow_blank=True, help_text="Part of a transactional id.")
    state = drf.ChoiceField(
        choices=["", ALL_OPEN, *(s.value for s in CoordinatorState)],
        default="",
        help_text="open: Ongoing, PrepareCommit, PrepareAbort and PrepareEpochFence.",
    )
    open_longer_minutes = drf.IntegerField(
        default=None, allow_null=True, min_value=0, max_value=MINUTES_MAX, help_text="Open for longer than this."
    )


class HangingQuery(drf.Serializer[object]):
    topic = drf.CharField(default="", allow_blank=True, help_text="Only partitions of this topic; default: all topics.")
    partition = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Only this partition.")

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if attrs["partition"] is not None and not attrs["topic"]:
            raise drf.ValidationError({"topic": ["Name the topic of the partition."]})
        return attrs


class TransactionViewSet(RowViewSet):
    """Read from the brokers, at most a second per request. `brokers_silent` names those whose transactions are missing."""

    serializer_class = DETAIL
    pagination_class = None
    lookup_url_kwarg = "transactional_id"
    lookup_value_converter = "path"
    noun = "transactional id"

    def get_row(self, key: str) -> selectors.TransactionDetail | None:
        found = selectors.transaction(key)
        known = found.row is not None or found.brokers_silent or found.offline_partitions
        return found if known else None

    @extend_schema(parameters=[TransactionQuery], responses={200: ONE_PAGE}, filters=False)
    def list(self, request: Request) -> Response:
        """Transactional ids of all coordinators. `sort`: transactional_id, state, producer_id, coordinator."""
        return page_response(request, selectors.transaction_list(**self.query(TransactionQuery)))

    @extend_schema(parameters=[OpenApiParameter("transactional_id", str, OpenApiParameter.PATH)])
    def retrieve(self, request: Request, transactional_id: str) -> Response:
        """One transactional id with the partitions of its open transaction. `row` is null if its coordinator did not respond."""
        return Response(self.get_serializer(self.get_object()).data)


class HangingTransactionView(InputMixin, APIView):
    @extend_schema(parameters=[HangingQuery], responses={200: SCAN})
    def get(self, request: Request) -> Response:
        """Search for transactions that are open in a partition and that no coordinator ends, as `kafka-transactions.sh find-hanging`. At most 10,000
        partitions per search."""
        given = self.query(HangingQuery)
        scan = hanging_transactions.search(given["topic"], given["partition"])
        if given["topic"] and not scan.partitions:
            raise Http404(f"There is no partition like {given['topic']!r}.")
        return Response(SCAN(scan).data)
