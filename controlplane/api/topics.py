"""Topics, partitions and their messages."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Unpack

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.dead_letters import DeadLetterViews
from controlplane.api.delayed_messages import NO_LIST, DelayedMessageViews
from controlplane.api.half_messages import HalfMessageViews
from controlplane.api.produce import CopyBody, CopyRange, ProduceBody
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.formats import Format
from controlplane.domain.produce import CopyTimestamp
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition, partitions_of_text
from controlplane.models import ObservedPartition, ObservedTopic
from controlplane.selectors import key_lookups, messages, partitions, truncations
from controlplane.selectors import topics as selectors
from controlplane.selectors.entity_tags import topic_tag
from controlplane.selectors.paging import ListOrder, Page, PageOptions
from controlplane.selectors.remote_sizes import PartitionStorage, TopicStorage, partition_storage, topic_storage
from controlplane.selectors.visibility import visible
from controlplane.services import Rejected, produce
from controlplane.services import topics as services
from controlplane.services.records import look_up_records, read_records

CONFIG = serializers.shape(selectors.ConfigRow)
CONFIG_ORDER = ListOrder(unique=("name",), others=("source", "value"))
COPY_PREVIEW = serializers.shape(produce.CopyPreview)
DETAIL = serializers.shape(selectors.TopicDetail)
KEY_LOOKUP = serializers.shape(key_lookups.KeyLookup)
MESSAGES = serializers.shape(messages.MessageRead)
PARTITION = serializers.shape(partitions.PartitionRow)
PRODUCED = serializers.shape(produce.ProduceResult)
PARTITION_STORAGE = serializers.shape(PartitionStorage)
STORAGE = serializers.shape(TopicStorage)
TOPIC = serializers.shape(selectors.TopicRow)
TRUNCATION = serializers.shape(truncations.TruncationRow)


def _assignment_of(assignment: dict[str, list[int]] | None) -> dict[int, list[int]] | None:
    """Converts the text keys of JSON to numbers. Raises Rejected for other keys."""
    if assignment is None:
        return None
    try:
        return {int(k): v for k, v in assignment.items()}
    except ValueError:
        raise Rejected("The assignment's keys are partition numbers.", "assignment") from None


class TopicViewSet(ListModelMixin, RetrieveModelMixin, DeadLetterViews, DelayedMessageViews, HalfMessageViews):
    queryset = ObservedTopic.objects.all()
    serializer_class: type[serializers.RowSerializer] = TOPIC
    filterset_class = selectors.TopicFilter
    ordering = "name"
    lookup_url_kwarg = "name"
    tag_of = staticmethod(topic_tag)
    lookup_value_converter = "str"
    noun = "topic"

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        if self.action in ("retrieve", "partial_update"):
            return DETAIL
        return self.serializer_class

    def get_row(self, key: str) -> selectors.TopicDetail | None:
        return selectors.topic_detail(key)

    def page_of(self, rows: QuerySet[ObservedTopic], **options: Unpack[PageOptions]) -> Page[selectors.TopicRow]:
        return selectors.topic_page(rows, unapplied=not self.request.query_params.get("state"), **options)

    @extend_schema(request=serializers.TopicCreate, responses={202: TOPIC})
    def create(self, request: Request) -> Response:
        """Request a topic. 202: the topic exists when `applied_generation` equals `generation`."""
        body = self.body(serializers.TopicCreate)
        services.create_topic(
            body["name"],
            partitions=body["partitions"],
            replication_factor=body["replication_factor"],
            configs=body["configs"],
            assignment=_assignment_of(body["assignment"]),
            actor=self.actor,
            comment=body["comment"],
        )
        return Response(TOPIC(selectors.topic_row(body["name"])).data, status=202)

    @extend_schema(request=serializers.TopicAlter, responses={202: DETAIL})
    def partial_update(self, request: Request, name: str) -> Response:
        """Change configs, or add partitions."""
        body = self.body(serializers.TopicAlter)
        self._check_topic(name)
        services.alter_topic(
            name,
            partitions=body["partitions"],
            set_configs={k: c for k, c in body["configs"].items() if c is not None},
            delete_configs=[k for k, c in body["configs"].items() if c is None],
            assignment=_assignment_of(body["assignment"]),
            actor=self.actor,
            comment=body["comment"],
            if_generation=body["if_generation"],
        )
        return self.row(202)

    @extend_schema(request=serializers.RequiredComment, responses={202: None})
    def destroy(self, request: Request, name: str) -> Response:
        """Delete the topic with its records."""
        self._check_topic(name)
        services.delete_topic(name, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=202)

    @extend_schema(responses=CONFIG(many=True))
    @action(detail=True, serializer_class=CONFIG, filterset_class=None, list_order=CONFIG_ORDER)
    def configs(self, request: Request, name: str) -> Response:
        """The configs of the topic: value, source, default and description."""
        self._check_topic(name)
        return self.computed(selectors.topic_configs(name))

    @extend_schema(responses=PARTITION(many=True))
    @action(
        detail=True,
        serializer_class=PARTITION,
        filterset_class=partitions.PartitionFilter,
        page_of=partitions.partition_page,
        ordering="index",
    )
    def partitions(self, request: Request, name: str) -> Response:
        """The partitions of the topic: leader, replicas, ISR, offsets, sizes and rates."""
        self._check_topic(name)
        return self.pages(ObservedPartition.objects.filter(topic__name=name))

    @action(detail=True, serializer_class=PARTITION, url_path="partitions/<int:partition>")
    def partition(self, request: Request, name: str, partition: int) -> Response:
        """One partition, with its replicas."""
        return Response(self.get_serializer(_partition(name, partition)).data)

    @extend_schema(responses=TRUNCATION(many=True))
    @action(
        detail=True,
        serializer_class=TRUNCATION,
        filterset_class=None,
        page_of=truncations.truncation_page,
        ordering="-truncated_at",
        url_path="partitions/<int:partition>/truncations",
    )
    def partition_truncations(self, request: Request, name: str, partition: int) -> Response:
        """Records that replicas of the partition deleted in the last 90 days, because the leader did not have them."""
        _partition(name, partition)
        return self.pages(visible(truncations.truncations_of(name, partition)))

    @extend_schema(responses={200: STORAGE})
    @action(detail=True, tag_of=None, **NO_LIST)
    def storage(self, request: Request, name: str) -> Response:
        """Local and remote bytes of the topic, and an estimate of their cost per month."""
        found = topic_storage(name)
        if found is None:
            raise Http404
        return Response(STORAGE(found).data)

    @extend_schema(responses={200: PARTITION_STORAGE})
    @action(detail=True, url_path="partitions/<int:partition>/storage", tag_of=None, **NO_LIST)
    def partition_storage(self, request: Request, name: str, partition: int) -> Response:
        """Local and remote bytes of the partition, and an estimate of their cost per month."""
        found = partition_storage(name, partition)
        if found is None:
            raise Http404
        return Response(PARTITION_STORAGE(found).data)

    @extend_schema(parameters=[serializers.TopicMessageQuery], responses=MESSAGES)
    @action(detail=True, serializer_class=MESSAGES, url_path="messages", pagination_class=None, filterset_class=None)
    def messages(self, request: Request, name: str) -> Response:
        """Records of all partitions or of `partitions`, merged by timestamp. A read is limited to five seconds, 64 MiB fetched and 4 MiB returned.
        `complete` says whether all records of the range were read, `stopped` and `note` why not; `resume` continues. Each partition has its own
        `problem`. Needs the permission read_records, for internal topics an administrator. Each read is recorded in the audit log."""
        self._check_topic(name)
        requested = self.query(serializers.TopicMessageQuery)
        return self._record_response(request, name, partitions_of_text(requested.pop("partitions")), requested)

    @extend_schema(parameters=[serializers.MessageQuery], responses=MESSAGES)
    @action(detail=True, serializer_class=MESSAGES, url_path="partitions/<int:partition>/messages")
    def partition_messages(self, request: Request, name: str, partition: int) -> Response:
        """Records of one partition, with the limits and fields of the read of a topic."""
        _partition(name, partition)
        return self._record_response(request, name, (partition,), self.query(serializers.MessageQuery))

    def _record_response(
        self, request: Request, topic: str, partitions: tuple[int, ...], requested: dict[str, Any]
    ) -> Response:
        resume, formats = (
            requested.pop("resume"),
            (Format(requested.pop("key_format")), Format(requested.pop("value_format"))),
        )
        filters = RecordFilters(**{f.name: requested.pop(f.name) for f in fields(RecordFilters)})
        start = StartPosition(requested.pop("start"))
        query = RecordQuery(topic, partitions, start, filters=filters, **requested)
        return Response(self.get_serializer(read_records(request.user, query, resume, formats)).data)

    @extend_schema(request=ProduceBody, responses={200: PRODUCED})
    @action(detail=True, methods=["post"], url_path="records", tag_of=None, **NO_LIST)
    def produce(self, request: Request, name: str) -> Response:
        """Produce a record, `count` times. The response has partition and offset of each record, or why it was not written. Needs the permission
        produce_records. Internal topics are rejected."""
        self._check_topic(name)
        v = self.body(ProduceBody)
        made = produce.produce_record(
            request.user, name, ProduceBody.record(name, v), count=v["count"], comment=v["comment"]
        )
        return Response(PRODUCED(made).data)

    @extend_schema(parameters=[serializers.KeyLookupQuery], responses={200: KEY_LOOKUP})
    @produce.mapping.get
    def look_up(self, request: Request, name: str) -> Response:
        """Records by key, newest first; `complete` says whether the whole topic was searched, `token` continues. Fast with the topic config
        `weir.index.keys`, otherwise a limited scan. Needs the permission read_records, for internal topics an administrator. Each look-up is
        recorded in the audit log."""
        self._check_topic(name)
        requested = self.query(serializers.KeyLookupQuery)
        text, as_hex = requested.pop("key"), requested.pop("key_hex")
        key = text.encode() if text is not None else bytes.fromhex(as_hex)
        partition = requested.pop("partition")
        requested["partitions"] = () if partition is None else (partition,)
        return Response(KEY_LOOKUP(look_up_records(request.user, name, key, **requested)).data)

    @extend_schema(request=CopyBody, responses={200: PRODUCED})
    @action(detail=True, methods=["post"], url_path="record-copies", tag_of=None, **NO_LIST)
    def copy_records(self, request: Request, name: str) -> Response:
        """Copy the records of an offset range into this topic, with key, value and headers. Needs the permissions read_records and
        produce_records."""
        self._check_topic(name)
        body = self.body(CopyBody)
        made = produce.copy_records(
            request.user,
            body["source_topic"],
            body["source_partition"],
            body["first_offset"],
            body["last_offset"],
            topic=name,
            to_partition=body["partition"],
            timestamp=CopyTimestamp(body["timestamp"]),
            comment=body["comment"],
        )
        return Response(PRODUCED(made).data)

    @extend_schema(request=CopyRange, responses={200: COPY_PREVIEW})
    @action(detail=True, methods=["post"], url_path="record-copies/preview", tag_of=None, **NO_LIST)
    def preview_copy(self, request: Request, name: str) -> Response:
        """The number of records and bytes that a copy would read. Nothing is written."""
        self._check_topic(name)
        v = self.body(CopyRange)
        found = produce.preview_copy(
            request.user, v["source_topic"], v["source_partition"], v["first_offset"], v["last_offset"], topic=name
        )
        return Response(COPY_PREVIEW(found).data)

    def _check_topic(self, name: str) -> None:
        if selectors.topic_row(name) is None:
            raise Http404(f"There is no topic {name!r}.")


def _partition(topic: str, index: int) -> partitions.PartitionRow:
    row = partitions.partition_row(topic, index)
    if row is None:
        raise Http404(f"There is no partition {topic}-{index}.")
    return row


class PartitionViewSet(ListModelMixin, RowViewSet):
    queryset = ObservedPartition.objects.all()
    serializer_class = PARTITION
    filterset_class = partitions.PartitionFilter
    noun = "partition"
    page_of = staticmethod(partitions.partition_page)
    ordering = "topic"
