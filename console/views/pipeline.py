"""Archives: Spark jobs that copy topics to Parquet. List, one archive with its batches, start, stop, resume."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.forms import ArchiveForm
from console.texts import gettext_lazy
from console.views.actions import ImmediateAction, run_immediately
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    page_number,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.selectors import archives
from controlplane.services import Rejected
from controlplane.services import archives as services

IMMEDIATE: dict[str, ImmediateAction] = {
    "stop": ImmediateAction(services.stop_archive, gettext_lazy("Archive {0} stops after its current batch.")),
    "resume": ImmediateAction(
        services.resume_archive, gettext_lazy("Archive {0} resumes at its last committed offsets."), "stop"
    ),
}


@viewer_required
def job_list(request: HttpRequest) -> HttpResponse:
    return render_page(
        request,
        "console/pipeline.html",
        {"page": archives.archive_list(**list_options(request, "-id"))},
        nav="pipeline",
    )


@operator_required
def start(request: HttpRequest) -> HttpResponse:
    form = ArchiveForm(request.POST or None, initial={"topics": request.GET.get("topic", "")})
    if request.method == "POST" and form.is_valid():
        try:
            job = services.start_archive(
                form.cleaned_data["topics"], actor=actor(request), comment=form.cleaned_data["comment"]
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Archive {id} requested. Spark takes up to two minutes to start.").format(id=job.pk))
            return redirect_to("job", job.pk)
    body = {"topics": str(form["topics"].value() or "TOPIC").replace(",", " ").split()}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(
        request, "console/pipeline_new.html", {"form": form, "body": body}, nav="pipeline", status=status
    )


@viewer_required
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    row = archives.archive_row(job_id)
    if row is None:
        return not_found(request, _("archive {job_id}").format(job_id=job_id), "pipeline", nav="pipeline")
    context = {
        "j": row,
        "written": archives.archive_written(job_id),
        "page": archives.archive_batches(job_id, page=page_number(request)),
    }
    return render_page(request, "console/job.html", context, nav="pipeline")


@require_POST
@operator_required
def act(request: HttpRequest, job_id: int, verb: str) -> HttpResponse:
    if verb not in IMMEDIATE:
        return not_found(request, _("archive operation “{verb}”").format(verb=verb), "pipeline", nav="pipeline")
    return run_immediately(request, IMMEDIATE[verb], job_id, page="job", act="job-act", nav="pipeline")
