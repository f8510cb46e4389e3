"""The ZooKeeper ensemble: read only."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import zookeeper as selectors

ENSEMBLE = serializers.shape(selectors.ZooKeeperEnsemble)


class ZooKeeperView(InputMixin):
    @extend_schema(responses={200: ENSEMBLE})
    def get(self, request: Request) -> Response:
        """The servers of the ensemble by the command `srvr`, and the sessions of the active controller and of the brokers. Waits for servers, at most
        some seconds."""
        return Response(ENSEMBLE(selectors.ensemble()).data)
