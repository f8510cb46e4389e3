"""Archive jobs of the pipeline."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, out_list, reads, writes
from controlplane.selectors import archives
from controlplane.services import archives as services

ACTS = {"stop": services.stop_archive, "resume": services.resume_archive}


class Archives(Door):
    @reads(shapes.page_of(archives.ArchiveRow), shapes.ListQuery)
    def get(self, request: Request) -> Response:
        v = self.listing(shapes.ListQuery, "-id")
        v.pop("query")
        return out(archives.archive_list(**v))

    @writes(shapes.ArchiveCreate, shapes.shape(archives.ArchiveRow), 201)
    def post(self, request: Request) -> Response:
        """Archive topics to Parquet in the lake, from their earliest record on."""
        v = self.body(shapes.ArchiveCreate)
        job = services.start_archive(v["topics"], who=self.who, why=v["why"])
        return out(found(archives.archive_row(job.pk), f"archive job {job.pk}"), 201)


class Archive(Door):
    @reads(shapes.shape(archives.ArchiveRow))
    def get(self, request: Request, job_id: int) -> Response:
        return out(found(archives.archive_row(job_id), f"archive job {job_id}"))


class ArchiveAct(Door):
    @writes(shapes.Why, shapes.shape(archives.ArchiveRow))
    def post(self, request: Request, job_id: int, act: str) -> Response:
        """`act`: stop (after the current micro-batch) or resume."""
        found(archives.archive_row(job_id), f"archive job {job_id}")
        found(ACTS.get(act), f"act {act!r}; use {', '.join(ACTS)}")(
            job_id, who=self.who, why=self.body(shapes.Why)["why"]
        )
        return out(found(archives.archive_row(job_id), f"archive job {job_id}"))


class ArchiveWritten(Door):
    """What the lake holds, per partition."""

    @reads(shapes.shape(archives.WrittenRow)(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        found(archives.archive_row(job_id), f"archive job {job_id}")
        return out_list(archives.archive_written(job_id))


class ArchiveBatches(Door):
    @reads(shapes.page_of(archives.BatchRow), shapes.ListQuery)
    def get(self, request: Request, job_id: int) -> Response:
        found(archives.archive_row(job_id), f"archive job {job_id}")
        v = self.read(shapes.ListQuery)
        return out(archives.archive_batches(job_id, page=v["page"], per_page=v["per_page"]))
