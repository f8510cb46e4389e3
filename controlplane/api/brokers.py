"""Brokers: state, replicas, settings, cordon, demotion, drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import RowPagination
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Broker
from controlplane.selectors import broker_configs as configs
from controlplane.selectors import brokers as selectors
from controlplane.services import broker_configs as config_services
from controlplane.services import brokers as services

BROKER = serializers.shape(selectors.BrokerRow)
CONFIGS = serializers.shape(configs.BrokerConfigs)
DRAIN = serializers.shape(selectors.DrainVerdict)
REPLICA = serializers.shape(selectors.ReplicaRow)
RESTART = serializers.shape(selectors.RestartVerdict)


class BrokerViewSet(RetrieveModelMixin, RowViewSet):
    """An operation on a broker takes effect when the metadata log contains it. The response may still show the state before."""

    queryset = Broker.objects.all()
    serializer_class = BROKER
    pagination_class = None
    lookup_url_kwarg = "broker_id"
    noun = "broker"

    def get_row(self, key: int) -> selectors.BrokerRow | None:
        return selectors.broker(key)

    def list(self, request: Request) -> Response:
        return self.rows(selectors.broker_list())

    @extend_schema(responses=REPLICA(many=True))
    @action(
        detail=True,
        serializer_class=REPLICA,
        pagination_class=RowPagination,
        filterset_class=selectors.ReplicaFilter,
        page_of=selectors.replica_page,
        ordering="topic",
    )
    def replicas(self, request: Request, broker_id: int) -> Response:
        self.get_object()
        return self.pages(selectors.replicas_on(broker_id))

    @action(detail=True, serializer_class=RESTART)
    def restart(self, request: Request, broker_id: int) -> Response:
        """Is it safe to restart this broker?"""
        self.get_object()
        return Response(self.get_serializer(selectors.safe_to_restart(broker_id)).data)

    @action(detail=True, serializer_class=DRAIN)
    def drain(self, request: Request, broker_id: int) -> Response:
        """The progress of a drain of this broker."""
        self.get_object()
        return Response(self.get_serializer(selectors.drain_state(broker_id)).data)

    @extend_schema(request=serializers.DrainStart)
    @drain.mapping.post
    def start_drain(self, request: Request, broker_id: int) -> Response:
        """Cordon the broker, demote it and move all its replicas to other brokers. `move_id` is the running move."""
        self.get_object()
        services.drain(broker_id, actor=self.actor, **self.body(serializers.DrainStart))
        return Response(self.get_serializer(selectors.drain_state(broker_id)).data)

    @extend_schema(parameters=[serializers.BrokerConfigQuery])
    @action(detail=True, serializer_class=CONFIGS, filterset_class=None)
    def configs(self, request: Request, broker_id: int) -> Response:
        """All settings with value, source and default, as the broker reports them; with `other`, beside those of another broker. Values of
        sensitive settings are null."""
        self.get_object()
        found = configs.broker_configs(broker_id, **self.query(serializers.BrokerConfigQuery))
        return Response(self.get_serializer(found).data)

    @extend_schema(request=serializers.BrokerConfigAlter, responses={204: None})
    @configs.mapping.patch
    def alter_configs(self, request: Request, broker_id: int) -> Response:
        """Set and remove dynamic settings of this broker, or cluster-wide. Brokers apply them within a second."""
        self.get_object()
        values = self.body(serializers.BrokerConfigAlter)
        scope = config_services.CLUSTER_WIDE if values["cluster_wide"] else broker_id
        config_services.alter_configs(scope, values["configs"], actor=self.actor, comment=values["comment"])
        return Response(status=204)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, broker_id: int) -> Response:
        """Place no new replicas on the broker."""
        return self._act(services.cordon)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, broker_id: int) -> Response:
        return self._act(services.uncordon)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def demote(self, request: Request, broker_id: int) -> Response:
        """Move leadership to other brokers."""
        return self._act(services.demote)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def restore_leadership(self, request: Request, broker_id: int) -> Response:
        return self._act(services.restore_leadership)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, broker_id: int) -> Response:
        """Uncordon and restore leadership at once."""
        return self._act(services.restore)

    def _act(self, service: Callable[..., Any]) -> Response:
        row = self.get_object()
        service(row.broker_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()
