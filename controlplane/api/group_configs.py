"""Configs of consumer groups and share groups."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.selectors import group_configs as selectors
from controlplane.services import group_configs as services

DETAIL = serializers.shape(selectors.GroupConfigList)
NAMED = [OpenApiParameter("group_id", str, OpenApiParameter.PATH)]


class GroupConfigViewSet(RowViewSet):
    """The configs of a group, read from a broker. As in Kafka, the group need not exist."""

    serializer_class = DETAIL
    pagination_class = None
    lookup_url_kwarg = "group_id"
    # The name of a group may contain slashes.
    lookup_value_converter = "path"
    noun = "group"

    def get_row(self, key: str) -> selectors.GroupConfigList | None:
        return selectors.group_configs(key)

    @extend_schema(parameters=NAMED)
    def retrieve(self, request: Request, group_id: str) -> Response:
        """All configs of a group with their values. `own`: the group has a value of its own; otherwise the default of the brokers applies."""
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(parameters=NAMED, request=serializers.GroupConfigAlter, responses={204: None})
    def partial_update(self, request: Request, group_id: str) -> Response:
        """Set and remove configs of a group. Brokers apply them within a second."""
        values = self.body(serializers.GroupConfigAlter)
        services.alter_group_configs(group_id, values["configs"], actor=self.actor, comment=values["comment"])
        return Response(status=204)
