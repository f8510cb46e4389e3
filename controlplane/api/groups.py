"""Consumer groups and ACLs."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Acl, ConsumerGroup
from controlplane.models.change import Outcome
from controlplane.selectors import acls, groups
from controlplane.services import acls as acl_services
from controlplane.services import groups as group_services

ACL = serializers.shape(acls.AclRow)


class ConsumerGroupViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = ConsumerGroup.objects.all()
    filterset_class = groups.GroupFilter
    page_of = staticmethod(groups.group_page)
    ordering = "group_id"
    lookup_url_kwarg = "group_id"
    # The name of a group may contain slashes.
    lookup_value_converter = "path"
    noun = "group"

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(groups.GroupRow if self.action == "list" else groups.GroupDetail)

    def get_row(self, key: str) -> groups.GroupDetail | None:
        return groups.group_detail(key)

    @extend_schema(request=serializers.RequiredComment, responses={204: None, 202: None})
    def destroy(self, request: Request, group_id: str) -> Response:
        """Delete an empty group with its offsets. 202: the cluster did not respond in time, the outcome is unknown."""
        self.get_object()
        outcome = group_services.delete_group(
            group_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"]
        )
        return Response(status=204 if outcome == Outcome.CONFIRMED else 202)


class AclViewSet(ListModelMixin, RowViewSet):
    queryset = Acl.objects.all()
    serializer_class = ACL
    filterset_class = acls.AclFilter
    noun = "ACL"
    page_of = staticmethod(acls.acl_page)
    ordering = "resource_name"
    lookup_url_kwarg = "acl_id"

    @extend_schema(request=serializers.AclCreate, responses={201: ACL})
    def create(self, request: Request) -> Response:
        """Create an ACL. Brokers enforce it where authorizer.class.name is set."""
        row = acl_services.create_acl(actor=self.actor, **self.body(serializers.AclCreate))
        return Response(self.get_serializer(acls.acl_shape(row)).data, status=201)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, acl_id: int) -> Response:
        """Delete the ACL. Brokers apply it within seconds."""
        acl_services.delete_acl(acl_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)
