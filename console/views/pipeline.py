"""Archive jobs: Spark runs that copy topics to Parquet, what each has written per partition, start, stop and resume."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.forms import ArchiveForm
from console.views.shell import asked_page, go, listing, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import archives
from controlplane.services import Refused
from controlplane.services import archives as services

ACTS = {
    "stop": (services.stop_archive, "Job {0} ends after its current batch.", "resume"),
    "resume": (services.resume_archive, "Job {0} goes on where it ended.", "stop"),
}


@signed_in
def job_list(request: HttpRequest) -> HttpResponse:
    return page(
        request, "console/pipeline.html", {"page": archives.archive_list(**listing(request, "-id"))}, nav="pipeline"
    )


@operator
def start(request: HttpRequest) -> HttpResponse:
    form = ArchiveForm(request.POST or None, initial={"topics": request.GET.get("topic", "")})
    if request.method == "POST" and form.is_valid():
        try:
            job = services.start_archive(form.cleaned_data["topics"], who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Archive job {job.pk} is asked for; Spark takes some seconds to start.")
            return go("job", job.pk)
    body = {"topics": str(form["topics"].value() or "TOPIC").replace(",", " ").split()}
    status = 400 if form.is_bound and form.errors else 200
    return page(request, "console/pipeline_new.html", {"form": form, "body": body}, nav="pipeline", status=status)


@signed_in
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    row = archives.archive_row(job_id)
    if row is None:
        return missing(request, f"archive job {job_id}", "pipeline", nav="pipeline")
    context = {
        "j": row,
        "written": archives.archive_written(job_id),
        "page": archives.archive_batches(job_id, page=asked_page(request)),
    }
    return page(request, "console/job.html", context, nav="pipeline")


@require_POST
@operator
def act(request: HttpRequest, job_id: int, verb: str) -> HttpResponse:
    if verb not in ACTS:
        return missing(request, f"act “{verb}” on a job", "pipeline", nav="pipeline")
    service, sentence, undo = ACTS[verb]
    try:
        service(job_id, who=who(request))
    except Refused as error:
        return refused(request, error, reverse("job", args=[job_id]), nav="pipeline")
    said(request, sentence.format(job_id), "" if verb == "stop" else reverse("job-act", args=[job_id, undo]))
    return go("job", job_id)
