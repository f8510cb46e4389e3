"""Archive jobs of the pipeline."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import ArchiveJob
from controlplane.selectors import archives as selectors
from controlplane.selectors.paging import ListOrder
from controlplane.services import archives as services

ARCHIVE = serializers.shape(selectors.ArchiveRow)
BATCH = serializers.shape(selectors.BatchRow)
WRITTEN = serializers.shape(selectors.WrittenRow)
WRITTEN_ORDER = ListOrder(unique=("topic", "partition"), others=("rows", "batches", "left_records"))


class ArchiveViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = ArchiveJob.objects.all()
    serializer_class = ARCHIVE
    filterset_class = selectors.ArchiveFilter
    page_of = staticmethod(selectors.archive_page)
    lookup_url_kwarg = "job_id"
    noun = "archive job"

    def get_row(self, key: int) -> selectors.ArchiveRow | None:
        return selectors.archive_row(key)

    @extend_schema(request=serializers.ArchiveCreate, responses={201: ARCHIVE})
    def create(self, request: Request) -> Response:
        """Archive topics to Parquet in the lake, from their earliest record on."""
        v = self.body(serializers.ArchiveCreate)
        job = services.start_archive(v["topics"], actor=self.actor, comment=v["comment"])
        return Response(self.get_serializer(self.get_row(job.pk)).data, status=201)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, job_id: int) -> Response:
        """Stop the job after the current micro-batch."""
        self.get_object()
        services.stop_archive(job_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, job_id: int) -> Response:
        """Start a stopped or failed job again at its last position."""
        self.get_object()
        services.resume_archive(job_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(responses=WRITTEN(many=True))
    @action(detail=True, serializer_class=WRITTEN, filterset_class=None, list_order=WRITTEN_ORDER)
    def offsets(self, request: Request, job_id: int) -> Response:
        """Archived offsets in the lake, per partition."""
        self.get_object()
        return self.computed(selectors.archive_written(job_id))

    @extend_schema(responses=BATCH(many=True))
    @action(detail=True, serializer_class=BATCH, page_of=selectors.batch_page, filterset_class=None)
    def batches(self, request: Request, job_id: int) -> Response:
        """The micro-batches of the job: their offsets, rows and files."""
        self.get_object()
        return self.pages(selectors.batches_of(job_id))
