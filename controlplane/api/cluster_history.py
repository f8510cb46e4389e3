"""The cluster at an earlier time, and the difference of two times: read only."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageFields, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.domain.cluster_difference import DifferenceKind
from controlplane.selectors import cluster_history as selectors
from controlplane.selectors import past_states
from controlplane.selectors.paging import Page

KEPT = serializers.shape(selectors.KeptTime)
CLUSTER = serializers.shape(past_states.PastCluster)
DIFFERENCE = page_shape(selectors.ClusterDifference, name="ClusterDifferencePage")
BROKER_ID_MIN = -1
"""Broker id of cluster-wide configs."""
BROKER_ID_MAX = 2**31 - 1
"""The broker ID of the protocol has 32 bits."""


class MomentQuery(drf.Serializer[object]):
    at = drf.DateTimeField(help_text="Time (ISO 8601).")


class StateQuery(MomentQuery, PageFields):
    topic = drf.CharField(default="", allow_blank=True, help_text="A part of the topic's name.")
    broker = drf.IntegerField(default=None, allow_null=True, min_value=BROKER_ID_MIN, max_value=BROKER_ID_MAX)


class PartitionQuery(StateQuery):
    state = drf.ChoiceField(
        default="", allow_blank=True, choices=["problems"], help_text="problems: offline and under-replicated ones."
    )


class DifferenceQuery(PageFields):
    since = drf.DateTimeField(help_text="Time (ISO 8601).")
    until = drf.DateTimeField(help_text="Time (ISO 8601).")
    each = drf.BooleanField(
        default=False, help_text="Every single change between the times, in their order, instead of the two states."
    )
    kind = drf.ChoiceField(default="", allow_blank=True, choices=[(k.value, k.value) for k in DifferenceKind])
    topic = drf.CharField(default="", allow_blank=True, help_text="A part of the topic's name.")
    broker = drf.IntegerField(default=None, allow_null=True, min_value=BROKER_ID_MIN, max_value=BROKER_ID_MAX)


PARTITIONS = page_shape(Page, name="PastPartitionPage", row=past_states.PastPartition)
CONFIGS = page_shape(Page, name="PastConfigPage", row=past_states.PastConfig)


class KeptTimeView(InputMixin):
    @extend_schema(responses={200: KEPT})
    def get(self, request: Request) -> Response:
        """The times whose states are known, oldest first. Between two of them is a gap: the metadata log was truncated before the console read it."""
        return Response(KEPT(selectors.kept_time()).data)


class PastClusterView(InputMixin):
    @extend_schema(parameters=[MomentQuery], responses={200: CLUSTER})
    def get(self, request: Request) -> Response:
        """The cluster at a time: brokers, numbers of partitions and their problems. 400: the time is not known; the error names the nearest known
        times."""
        return Response(CLUSTER(past_states.past_cluster(selectors.moment(**self.query(MomentQuery)))).data)


class PastPartitionsView(InputMixin):
    @extend_schema(parameters=[PartitionQuery], responses={200: PARTITIONS})
    def get(self, request: Request) -> Response:
        """Leader, ISR and replicas of each partition at a time, by topic and index."""
        given = self.query(PartitionQuery)
        page = past_states.past_partitions(selectors.moment(given.pop("at")), **given)
        return page_response(request, page)


class PastConfigsView(InputMixin):
    @extend_schema(parameters=[StateQuery], responses={200: CONFIGS})
    def get(self, request: Request) -> Response:
        """Overrides of topics and dynamic configs of brokers at a time. With `broker` those of this broker only (-1: cluster-wide), with `topic` those
        of topics only."""
        given = self.query(StateQuery)
        page = past_states.past_configs(selectors.moment(given.pop("at")), **given)
        return page_response(request, page)


class DifferenceView(InputMixin):
    @extend_schema(parameters=[DifferenceQuery], responses={200: DIFFERENCE})
    def get(self, request: Request) -> Response:
        """The differences between two times: brokers, leaders, ISR, placements, topics, configs, ACLs and quotas, features."""
        return page_response(request, selectors.difference(**self.query(DifferenceQuery)))
