"""Replica recoveries, and the damaged replicas that brokers report."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import ReplicaDamageReport, ReplicaRecovery
from controlplane.selectors import recoveries as selectors
from controlplane.services import recovery

RECOVERY = serializers.shape(selectors.RecoveryRow)


class RecoveryViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = ReplicaRecovery.objects.all()
    serializer_class = RECOVERY
    filterset_class = selectors.RecoveryFilter
    page_of = staticmethod(selectors.recovery_page)
    lookup_url_kwarg = "recovery_id"
    noun = "recovery"

    def get_row(self, key: int) -> selectors.RecoveryRow | None:
        return selectors.recovery_row(key)

    @extend_schema(request=serializers.RecoveryCreate, responses={201: RECOVERY})
    def create(self, request: Request) -> Response:
        """Discard a replica and fetch it again from its leader."""
        v = self.body(serializers.RecoveryCreate)
        row = recovery.recover_replica(
            v["topic"], v["partition"], v["broker_id"], actor=self.actor, comment=v["comment"]
        )
        return Response(self.get_serializer(selectors.recovery_shape(row)).data, status=201)


class DamageReportViewSet(ListModelMixin, RowViewSet):
    """Damaged replicas reported by brokers; `open`: only those that are still reported."""

    queryset = ReplicaDamageReport.objects.all()
    serializer_class = serializers.shape(selectors.DamageReportRow)
    filterset_class = selectors.DamageReportFilter
    page_of = staticmethod(selectors.damage_report_page)
