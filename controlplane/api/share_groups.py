"""Share groups (KIP-932) as their coordinators report them. Their offsets are reset by `offset-resets`."""

from __future__ import annotations

from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import RowViewSet
from controlplane.models.change import Outcome
from controlplane.selectors import share_groups as selectors
from controlplane.services import share_groups as services

DETAIL = serializers.shape(selectors.ShareGroupDetail)
PAGE = page_shape(selectors.ShareGroupPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]
NAMED = [OpenApiParameter("group_id", str, OpenApiParameter.PATH)]


class ShareGroupQuery(PageQuery):
    query = drf.CharField(default="", allow_blank=True, help_text="Part of a name.")


class ShareGroupViewSet(RowViewSet):
    """Read from the brokers, at most a second per request. `brokers_silent` names those whose groups are missing."""

    serializer_class = DETAIL
    pagination_class = None
    lookup_url_kwarg = "group_id"
    # The name of a group may contain slashes.
    lookup_value_converter = "path"
    noun = "share group"

    def get_row(self, key: str) -> selectors.ShareGroupDetail | None:
        found = selectors.share_group(key)
        known = found.row is not None or found.brokers_silent or found.offline_partitions
        return found if known else None

    @extend_schema(parameters=[ShareGroupQuery], responses={200: ONE_PAGE}, filters=False)
    def list(self, request: Request) -> Response:
        """Share groups of all coordinators. `sort`: group_id, state, coordinator."""
        return page_response(request, selectors.share_group_list(**self.query(ShareGroupQuery)))

    @extend_schema(parameters=NAMED)
    def retrieve(self, request: Request, group_id: str) -> Response:
        """One share group with its members and partitions. `row` is null if its coordinator did not respond."""
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(parameters=NAMED, request=serializers.RequiredComment, responses={204: None, 202: None})
    def destroy(self, request: Request, group_id: str) -> Response:
        """Delete a share group without members, with the delivery state of its records. 202: the cluster did not respond in time, the outcome is
        unknown."""
        self.get_object()
        comment = self.body(serializers.RequiredComment)["comment"]
        outcome = services.delete_share_group(group_id, actor=self.actor, comment=comment)
        return Response(status=204 if outcome == Outcome.CONFIRMED else 202)
