"""Rolling restarts and rebalance proposals."""

from __future__ import annotations

from collections.abc import Callable

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.models import RollingRestart
from controlplane.selectors import restarts as selectors
from controlplane.services import rebalance, rolling_restart

REBALANCE = serializers.shape(rebalance.Proposed)
RESTART = serializers.shape(selectors.RestartRow)


class RollingRestartViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = RollingRestart.objects.all()
    serializer_class = RESTART
    filterset_class = selectors.RestartFilter
    page_of = staticmethod(selectors.restart_page)
    lookup_url_kwarg = "restart_id"
    noun = "rolling restart"

    def get_row(self, key: int) -> selectors.RestartRow | None:
        return selectors.restart_row(key)

    @extend_schema(request=serializers.RestartCreate, responses={201: RESTART})
    def create(self, request: Request) -> Response:
        """Restart brokers one after the other, each when all partitions stay available without it."""
        v = self.body(serializers.RestartCreate)
        row = rolling_restart.start_restart(v["brokers"], actor=self.actor, comment=v["comment"])
        return Response(self.get_serializer(self.get_row(row.pk)).data, status=201)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, restart_id: int) -> Response:
        """Restart no further broker. The restart of the current broker finishes."""
        return self._act(rolling_restart.pause_restart)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, restart_id: int) -> Response:
        """Continue a paused rolling restart."""
        return self._act(rolling_restart.resume_restart)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, restart_id: int) -> Response:
        """Skip the remaining brokers. The restart of the current broker finishes, and its leadership is restored."""
        return self._act(rolling_restart.cancel_restart)

    def _act(self, service: Callable[..., object]) -> Response:
        row = self.get_object()
        service(row.id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()


class RebalanceView(InputMixin):
    @extend_schema(request=serializers.ProposalAsk, responses=REBALANCE)
    def post(self, request: Request) -> Response:
        """A proposal for a better balance, by goals. Nothing is written. `scope` is that of the move that carries out the proposal."""
        return Response(REBALANCE(rebalance.propose_changes(**self.body(serializers.ProposalAsk))).data)
