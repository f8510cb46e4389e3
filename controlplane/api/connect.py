"""Kafka Connect: clusters, plugins, connectors; validate, create, change, pause, resume, stop, restart, delete."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import connect as selectors
from controlplane.services import connect as services

PAGE = page_shape(selectors.ConnectorPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]
DETAIL = serializers.shape(selectors.ConnectorDetail)
PLUGIN = serializers.shape(selectors.ConnectPluginRow)
VALIDATION = serializers.shape(services.ConnectorValidation)
TASK_MAX = 2**31 - 1
"""Numbers of tasks have 32 bits."""
CLUSTER_HELP = "A name of WEIR_CONNECT_URLS."


class ConnectorQuery(PageQuery):
    query = drf.CharField(default="", allow_blank=True, help_text="Part of the name or of the class.")
    cluster = drf.CharField(default="", allow_blank=True, help_text=f"{CLUSTER_HELP} Empty: all.")
    state = drf.ChoiceField(
        default="",
        allow_blank=True,
        choices=[(s, s) for s in selectors.STATES],
        help_text="failed: the connector or one of its tasks.",
    )


class ConnectorName(drf.Serializer[object]):
    cluster = drf.CharField(help_text=CLUSTER_HELP)
    name = drf.CharField(max_length=services.NAME_CHARS_MAX, help_text="Name of the connector.")


class PluginQuery(drf.Serializer[object]):
    cluster = drf.CharField(help_text=CLUSTER_HELP)


class ConnectorBody(ConnectorName, serializers.Comment):
    pass


class ConnectorReasonBody(ConnectorName, serializers.RequiredComment):
    pass


class ConnectorConfigBody(ConnectorName):
    config = drf.DictField(
        child=drf.CharField(allow_blank=True, trim_whitespace=False, max_length=services.VALUE_CHARS_MAX),
        help_text="All configs, with connector.class. A hidden value (********) keeps the stored one.",
    )


class ConnectorCreateBody(ConnectorConfigBody, serializers.RequiredComment):
    pass


class ConnectorChangeBody(ConnectorConfigBody, serializers.RequiredComment):
    version = drf.CharField(
        default="", allow_blank=True, help_text="Reject the change if the config has another version. Empty: any."
    )


class ConnectorRestartBody(ConnectorBody):
    include_tasks = drf.BooleanField(default=False, help_text="Also the tasks.")
    only_failed = drf.BooleanField(default=False, help_text="Only what has failed.")


class TaskRestartBody(ConnectorBody):
    task = drf.IntegerField(min_value=0, max_value=TASK_MAX, help_text="Number of the task.")


class ConnectorsView(InputMixin):
    @extend_schema(operation_id="connectors_list", parameters=[ConnectorQuery], responses={200: ONE_PAGE})
    def get(self, request: Request) -> Response:
        """Connectors of all Connect clusters, and the clusters with version and problems. Waits for the workers, at most some seconds. `sort`: state, name,
        cluster, failed_tasks."""
        return page_response(request, selectors.connector_list(**self.query(ConnectorQuery)))


class ConnectorView(InputMixin):
    @extend_schema(operation_id="connector_retrieve", parameters=[ConnectorName], responses={200: DETAIL})
    def get(self, request: Request) -> Response:
        """One connector: config without secrets, tasks with the trace of failed ones, topics, offsets."""
        v = self.query(ConnectorName)
        found = selectors.connector_detail(v["cluster"], v["name"])
        if found is None:
            raise Http404("The Connect cluster does not have this connector.")
        return Response(DETAIL(found).data)


class ConnectPluginsView(InputMixin):
    @extend_schema(operation_id="connect_plugins_list", parameters=[PluginQuery], responses={200: PLUGIN(many=True)})
    def get(self, request: Request) -> Response:
        """Classes of connectors that the workers of a Connect cluster have."""
        found = selectors.plugin_list(self.query(PluginQuery)["cluster"])
        return Response(PLUGIN(found, many=True).data)


class ConnectorValidateView(InputMixin):
    @extend_schema(operation_id="connector_validate", request=ConnectorConfigBody, responses={200: VALIDATION})
    def post(self, request: Request) -> Response:
        """Ask the workers whether they would accept the config of a new or an existing connector. The response has all errors. Changes nothing."""
        v = self.body(ConnectorConfigBody)
        return Response(VALIDATION(services.validate_config(v["cluster"], v["name"], v["config"])).data)


class ConnectorCreateView(InputMixin):
    @extend_schema(operation_id="connector_create", request=ConnectorCreateBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Create a connector after its validation; it starts immediately. The response 400 has all errors."""
        v = self.body(ConnectorCreateBody)
        services.create_connector(v["cluster"], v["name"], v["config"], actor=self.actor, comment=v["comment"])
        return Response(status=204)


class ConnectorChangeView(InputMixin):
    @extend_schema(operation_id="connector_change", request=ConnectorChangeBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Replace the config of a connector after its validation; its tasks restart. 400 has all errors."""
        v = self.body(ConnectorChangeBody)
        services.change_connector(
            v["cluster"], v["name"], v["config"], actor=self.actor, comment=v["comment"], version=v["version"]
        )
        return Response(status=204)


class ConnectorPauseView(InputMixin):
    @extend_schema(operation_id="connector_pause", request=ConnectorBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Pause a connector: its tasks stay assigned and do nothing."""
        services.pause_connector(**self.body(ConnectorBody), actor=self.actor)
        return Response(status=204)


class ConnectorResumeView(InputMixin):
    @extend_schema(operation_id="connector_resume", request=ConnectorBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Resume a paused or a stopped connector."""
        services.resume_connector(**self.body(ConnectorBody), actor=self.actor)
        return Response(status=204)


class ConnectorStopView(InputMixin):
    @extend_schema(operation_id="connector_stop", request=ConnectorReasonBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Stop a connector: its tasks end, its config and offsets stay."""
        services.stop_connector(**self.body(ConnectorReasonBody), actor=self.actor)
        return Response(status=204)


class ConnectorRestartView(InputMixin):
    @extend_schema(operation_id="connector_restart", request=ConnectorRestartBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Restart a connector, and its tasks if requested."""
        services.restart_connector(**self.body(ConnectorRestartBody), actor=self.actor)
        return Response(status=204)


class TaskRestartView(InputMixin):
    @extend_schema(operation_id="connector_task_restart", request=TaskRestartBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Restart one task of a connector."""
        services.restart_task(**self.body(TaskRestartBody), actor=self.actor)
        return Response(status=204)


class ConnectorDeleteView(InputMixin):
    @extend_schema(operation_id="connector_delete", request=ConnectorReasonBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Delete a connector. Its topics, their records and its offsets stay."""
        services.delete_connector(**self.body(ConnectorReasonBody), actor=self.actor)
        return Response(status=204)
