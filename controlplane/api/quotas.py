"""Client quotas: list, one with its current use, set, change, delete."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import AccessEntry
from controlplane.selectors import quotas
from controlplane.services import quotas as services

QUOTA = serializers.shape(quotas.QuotaRow)


def limits_field() -> drf.DictField:
    return drf.DictField(
        child=drf.FloatField(allow_null=True),
        help_text="Per broker: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; connection_creation_rate of an "
        "address. Null removes a limit; others stay.",
    )


class QuotaCreate(serializers.Comment):
    entity = drf.DictField(
        child=drf.CharField(allow_null=True, trim_whitespace=False),
        help_text='{"user": "alice", "client-id": "c"}, one of both, or {"ip": "10.0.0.1"}. Null is the default entity.',
    )
    limits = limits_field()


class QuotaAlter(serializers.RequiredComment):
    limits = limits_field()


class QuotaViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = AccessEntry.objects.all()
    filterset_class = quotas.QuotaFilter
    page_of = staticmethod(quotas.quota_page)
    ordering = "name"
    lookup_url_kwarg = "quota_id"
    noun = "quota"

    def get_queryset(self) -> QuerySet[AccessEntry]:
        return quotas.quota_rows()

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(quotas.QuotaDetail) if self.action == "retrieve" else QUOTA

    def get_row(self, key: int) -> quotas.QuotaDetail | quotas.QuotaRow | None:
        return quotas.quota_detail(key) if self.action == "retrieve" else quotas.quota_row(key)

    @extend_schema(request=QuotaCreate, responses={201: QUOTA})
    def create(self, request: Request) -> Response:
        """Set limits of an entity. Limits that it has and that are not named stay. Brokers enforce them within a second."""
        row = services.set_quota(actor=self.actor, **self.body(QuotaCreate))
        return Response(QUOTA(quotas.quota_shape(row)).data, status=201)

    @extend_schema(request=QuotaAlter, responses={200: QUOTA})
    def partial_update(self, request: Request, quota_id: int) -> Response:
        """Change limits. A quota without limits is deleted, then its `limits` are empty."""
        before = self.get_object()
        row = services.set_quota(before.entity, actor=self.actor, **self.body(QuotaAlter))
        return Response(QUOTA(quotas.quota_shape(row)).data)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, quota_id: int) -> Response:
        """Remove all limits of the entity. Less specific quotas apply afterwards."""
        self.get_object()
        services.delete_quota(quota_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)
