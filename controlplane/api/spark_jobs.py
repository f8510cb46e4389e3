"""Spark jobs and their runs."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import SparkJob, SparkRun
from controlplane.selectors import entity_tags
from controlplane.selectors import spark_jobs as selectors
from controlplane.services import spark_jobs as services
from weir_common.spark_jobs import JobKind

JOB = serializers.shape(selectors.SparkJobRow)
RUN = serializers.shape(selectors.SparkRunRow)
LOG = serializers.shape(selectors.SparkLog)
KIND = serializers.shape(JobKind)


class SparkJobViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = SparkJob.objects.filter(deleted_at__isnull=True)
    serializer_class = JOB
    page_of = staticmethod(selectors.job_page)
    lookup_url_kwarg = "job_id"
    noun = "Spark job"
    tag_of = staticmethod(entity_tags.spark_job_tag)

    def get_row(self, key: int) -> selectors.SparkJobRow | None:
        return selectors.job_row(key)

    @extend_schema(request=serializers.SparkJobCreate, responses={201: JOB})
    def create(self, request: Request) -> Response:
        """Create a job and, unless `start` is false, request its first run. `/spark-jobs/kinds` lists the kinds and their parameters."""
        body = self.body(serializers.SparkJobCreate)
        job = services.create_spark_job(
            body["name"],
            body["kind"],
            body["parameters"],
            schedule=body["schedule"],
            start=body["start"],
            actor=self.actor,
            comment=body["comment"],
        )
        return Response(self.get_serializer(self.get_row(job.pk)).data, status=201)

    @extend_schema(request=serializers.Comment, responses={204: None})
    def destroy(self, request: Request, job_id: int) -> Response:
        """Delete a job without an active run. Its tables and runs remain."""
        self.get_object()
        services.delete_spark_job(job_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(status=204)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def run(self, request: Request, job_id: int) -> Response:
        """Request a run. A job has one active run."""
        self.get_object()
        services.run_spark_job(job_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, job_id: int) -> Response:
        """Stop the active run after its current step."""
        self.get_object()
        services.stop_spark_job(job_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=serializers.SparkJobSchedule)
    @action(detail=True, methods=["post"])
    def schedule(self, request: Request, job_id: int) -> Response:
        """Change the schedule, a cron expression in UTC. An empty one removes it."""
        self.get_object()
        v = self.body(serializers.SparkJobSchedule)
        services.schedule_spark_job(job_id, v["schedule"], actor=self.actor, comment=v["comment"])
        return self.row()

    @extend_schema(responses=KIND(many=True))
    @action(detail=False, serializer_class=KIND, pagination_class=None)
    def kinds(self, request: Request) -> Response:
        """The kinds of jobs, with the type, default and limits of each parameter."""
        return Response(self.get_serializer(selectors.kinds(), many=True).data)


class SparkRunViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = SparkRun.objects.all()
    serializer_class = RUN
    filterset_class = selectors.SparkRunFilter
    page_of = staticmethod(selectors.run_page)
    lookup_url_kwarg = "run_id"
    noun = "Spark run"

    def get_row(self, key: int) -> selectors.SparkRunRow | None:
        return selectors.run_row(key)

    @extend_schema(responses=LOG)
    @action(detail=True, serializer_class=LOG)
    def log(self, request: Request, run_id: int) -> Response:
        """The end of the driver's log."""
        self.get_object()
        return Response(self.get_serializer(selectors.run_log(run_id)).data)
