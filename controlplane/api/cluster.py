"""The overview, the audit log and drift."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.models import Change, ObservedTopic
from controlplane.selectors import changes, other_clusters, overview, topics
from controlplane.selectors.paging import ListOrder
from controlplane.services import topics as topic_services

CLUSTER = serializers.shape(other_clusters.ClusterRow)
OVERVIEW = serializers.shape(overview.Overview)
TOPIC = serializers.shape(topics.TopicRow)


class OverviewView(InputMixin):
    """The cluster in one object: health, brokers, numbers of topics and partitions, and how old the values are."""

    @extend_schema(responses=OVERVIEW)
    def get(self, request: Request) -> Response:
        return Response(OVERVIEW(overview.overview()).data)


class ClustersView(InputMixin):
    @extend_schema(operation_id="clusters_list", responses={200: CLUSTER(many=True)})
    def get(self, request: Request) -> Response:
        """This cluster and those of WEIR_CLUSTERS_FILE, with the values of the last response of each console. `problem` says why values are not current. Asks no
        other console: the cluster monitor does so every 10 s."""
        return Response(CLUSTER(other_clusters.cluster_rows(overview.overview()), many=True).data)


class ChangeViewSet(ListModelMixin, RowViewSet):
    """The audit log: who changed what, with the values before and after, and the outcome."""

    queryset = Change.objects.all()
    serializer_class = serializers.shape(changes.ChangeRow)
    filterset_class = changes.ChangeFilter
    noun = "change"
    page_of = staticmethod(changes.change_page)


class DriftViewSet(RowViewSet):
    """Differences between the database and the cluster. A difference stays until an operator adopts it."""

    queryset = ObservedTopic.objects.all()
    serializer_class = serializers.shape(topics.DriftRow)
    list_order = ListOrder(unique=("name",), others=("kind", "row_generation", "log_generation"))
    lookup_url_kwarg = "topic_id"
    lookup_value_converter = "uuid"

    def list(self, request: Request) -> Response:
        return self.computed(topics.drift_list())

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"], serializer_class=TOPIC)
    def adopt(self, request: Request, topic_id: uuid.UUID) -> Response:
        """Make the state of the metadata log the declared state of the topic. Nothing changes in the cluster."""
        row = topic_services.adopt_topic(topic_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(TOPIC(topics.topic_row(row.name)).data)
