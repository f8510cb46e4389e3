"""Brokers: state, replicas, settings, cordon, demotion, drain."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Broker
from controlplane.models.change import Outcome
from controlplane.selectors import broker_configs as configs
from controlplane.selectors import brokers as selectors
from controlplane.selectors import log_dirs
from controlplane.selectors.paging import ListOrder
from controlplane.services import broker_configs as config_services
from controlplane.services import brokers as services
from controlplane.services import log_dirs as log_dir_services

BROKER = serializers.shape(selectors.BrokerRow)
BROKER_ORDER = ListOrder(
    unique=("broker_id",),
    others=(
        "alive",
        "host",
        "rack",
        "leaders",
        "leaders_skew_pct",
        "replicas",
        "replicas_skew_pct",
        "replicas_out_of_sync",
        "size_bytes",
        "free_bytes",
        "broker_epoch",
    ),
)
API = serializers.shape(selectors.ApiRow)
API_ORDER = ListOrder(
    unique=("name",),
    others=("requests_per_s", "p50_ms", "p99_ms", "greatest_ms", "errors_per_s"),
    default="-requests_per_s",
)
REJECTION = serializers.shape(selectors.RefusalRow)
REJECTION_ORDER = ListOrder(unique=("reason",), others=("total", "per_s"), default="-per_s")
CONFIGS = page_shape(configs.BrokerConfigPage)
LOG_DIRS = page_shape(log_dirs.BrokerLogDirs)
LOG_DIR_MOVE = serializers.shape(log_dir_services.LogDirMovePreview)
DRAIN = serializers.shape(selectors.DrainVerdict)
REPLICA = serializers.shape(selectors.ReplicaRow)
RESTART = serializers.shape(selectors.RestartVerdict)


class BrokerConfigQuery(PageQuery):
    other_id = drf.IntegerField(default=None, allow_null=True, help_text="Compare with this broker.")
    query = drf.CharField(default="", allow_blank=True, help_text="Part of a setting's name.")
    only = drf.ChoiceField(
        choices=["", "changed", "different"],
        default="",
        help_text="changed: not the default. different: the other broker has another value.",
    )


class LogDirQuery(PageQuery):
    query = drf.CharField(default="", allow_blank=True, help_text="Part of a topic's name.")
    directory = drf.CharField(default="", allow_blank=True, help_text="Only the replicas in this directory.")


class LogDirMoveEnd(serializers.Comment):
    topic = drf.CharField()
    partition = drf.IntegerField(min_value=0)


class LogDirMoveStart(LogDirMoveEnd):
    directory = drf.CharField(help_text="A log directory of this broker, as it reports it.")
    dry = drf.BooleanField(default=False, help_text="Only check the move and show what it would do.")


class BrokerViewSet(RetrieveModelMixin, RowViewSet):
    """An operation on a broker takes effect when the metadata log contains it. The response may still show the state before."""

    queryset = Broker.objects.all()
    serializer_class = BROKER
    list_order = BROKER_ORDER
    lookup_url_kwarg = "broker_id"
    noun = "broker"

    def get_row(self, key: int) -> selectors.BrokerRow | None:
        return selectors.broker(key)

    def list(self, request: Request) -> Response:
        return self.computed(selectors.visible_brokers())

    @extend_schema(responses=REPLICA(many=True))
    @action(
        detail=True,
        serializer_class=REPLICA,
        filterset_class=selectors.ReplicaFilter,
        page_of=selectors.replica_page,
        ordering="topic",
    )
    def replicas(self, request: Request, broker_id: int) -> Response:
        """The replicas on the broker: role, lag and size."""
        self.get_object()
        return self.pages(selectors.replicas_on(broker_id))

    @extend_schema(responses=API(many=True))
    @action(detail=True, url_path="requests", serializer_class=API, filterset_class=None, list_order=API_ORDER)
    def requests_by_api(self, request: Request, broker_id: int) -> Response:
        """The requests to this broker by API: rate, latency and errors of the last seconds, as the cluster monitor stored them."""
        self.get_object()
        return self.computed(selectors.broker_requests(broker_id))

    @extend_schema(responses=REJECTION(many=True))
    @action(detail=True, serializer_class=REJECTION, filterset_class=None, list_order=REJECTION_ORDER)
    def refusals(self, request: Request, broker_id: int) -> Response:
        """The requests and connections that this broker rejected or throttled, by reason, as the cluster monitor stored them. `clients` has them by client."""
        self.get_object()
        return self.computed(selectors.broker_rejections(broker_id))

    @action(detail=True, serializer_class=RESTART)
    def restart(self, request: Request, broker_id: int) -> Response:
        """Check whether it is safe to restart this broker."""
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

    @extend_schema(parameters=[BrokerConfigQuery])
    @action(detail=True, serializer_class=CONFIGS, filterset_class=None)
    def configs(self, request: Request, broker_id: int) -> Response:
        """A page of the settings with value, source and default, as the broker reports them; with `other_id`, next to those of another broker. Values
        of sensitive settings are null. `settings`: number of all settings."""
        self.get_object()
        found = configs.broker_config_page(broker_id, **self.query(BrokerConfigQuery))
        if found is None:
            raise Http404
        return page_response(request, found)

    @extend_schema(request=serializers.BrokerConfigAlter, responses={204: None})
    @configs.mapping.patch
    def alter_configs(self, request: Request, broker_id: int) -> Response:
        """Set and remove dynamic settings of this broker, or cluster-wide. Brokers apply them within a second."""
        self.get_object()
        values = self.body(serializers.BrokerConfigAlter)
        scope = config_services.CLUSTER_WIDE if values["cluster_wide"] else broker_id
        config_services.alter_configs(scope, values["configs"], actor=self.actor, comment=values["comment"])
        return Response(status=204)

    @extend_schema(parameters=[LogDirQuery])
    @action(detail=True, url_path="log-directories", serializer_class=LOG_DIRS, filterset_class=None)
    def log_directories(self, request: Request, broker_id: int) -> Response:
        """The log directories of this broker with their space, the moves between them, and a page of the replicas, the largest first. Read from the
        broker within two seconds; `problem` says why it did not respond."""
        self.get_object()
        found = log_dirs.broker_log_dirs(broker_id, **self.query(LogDirQuery))
        if found is None:
            raise Http404
        return page_response(request, found)

    @extend_schema(request=LogDirMoveStart, responses={200: LOG_DIR_MOVE, 202: LOG_DIR_MOVE})
    @action(detail=True, methods=["post"], url_path="log-directories/move", serializer_class=LOG_DIR_MOVE)
    def move_log_directory(self, request: Request, broker_id: int) -> Response:
        """Move a replica to another log directory of this broker. 202: the broker did not respond, the outcome is unknown."""
        self.get_object()
        v = self.body(LogDirMoveStart)
        place = (broker_id, v["topic"], v["partition"], v["directory"])
        preview = log_dir_services.preview_log_dir_move(*place) if v["dry"] else None
        if preview is None:
            preview, outcome = log_dir_services.move_to_log_dir(*place, actor=self.actor, comment=v["comment"])
            return Response(self.get_serializer(preview).data, status=200 if outcome == Outcome.CONFIRMED else 202)
        return Response(self.get_serializer(preview).data)

    @extend_schema(request=LogDirMoveEnd, responses={202: None, 204: None})
    @action(detail=True, methods=["post"], url_path="log-directories/cancel")
    def cancel_log_directory_move(self, request: Request, broker_id: int) -> Response:
        """End a move between log directories: the replica stays where it is. 202: the broker did not respond, the outcome is unknown."""
        self.get_object()
        v = self.body(LogDirMoveEnd)
        outcome = log_dir_services.cancel_log_dir_move(
            broker_id, v["topic"], v["partition"], actor=self.actor, comment=v["comment"]
        )
        return Response(status=204 if outcome == Outcome.CONFIRMED else 202)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, broker_id: int) -> Response:
        """Place no new replicas on the broker."""
        return self._act(services.cordon)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, broker_id: int) -> Response:
        """Allow new replicas on the broker again."""
        return self._act(services.uncordon)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def demote(self, request: Request, broker_id: int) -> Response:
        """Move leadership to other brokers."""
        return self._act(services.demote)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def restore_leadership(self, request: Request, broker_id: int) -> Response:
        """End the demotion. The controller returns leadership to preferred leaders within seconds."""
        return self._act(services.restore_leadership)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, broker_id: int) -> Response:
        """Uncordon and restore leadership in one operation."""
        return self._act(services.restore)

    def _act(self, service: Callable[..., object]) -> Response:
        row = self.get_object()
        service(row.broker_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()
