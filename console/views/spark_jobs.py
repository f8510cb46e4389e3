"""Spark jobs: list, the form of each kind, one job with its runs, one run with its report and log."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.spark_job_forms import SparkJobForm, SparkScheduleForm
from console.texts import gettext_lazy
from console.views.actions import Deletion, ImmediateAction, confirm_deletion, run_immediately
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
from controlplane.selectors import spark_jobs as selectors
from controlplane.selectors.spark_jobs import SparkJobVerb
from controlplane.services import Rejected
from controlplane.services import spark_jobs as services
from weir_common.spark_jobs import KINDS

NAV = "spark-jobs"

IMMEDIATE: dict[str, ImmediateAction] = {
    SparkJobVerb.RUN: ImmediateAction(
        services.run_spark_job, gettext_lazy("A run of job {0} is requested. Spark takes up to two minutes to start.")
    ),
    SparkJobVerb.STOP: ImmediateAction(services.stop_spark_job, gettext_lazy("Job {0} stops after its current step.")),
}


@viewer_required
def job_list(request: HttpRequest) -> HttpResponse:
    context = {"page": selectors.job_list(**list_options(request, "-id")), "kinds": selectors.kinds()}
    return render_page(request, "console/spark_jobs.html", context, nav=NAV)


@operator_required
def start(request: HttpRequest, kind: str) -> HttpResponse:
    if kind not in KINDS:
        return not_found(request, _("job kind “{kind}”").format(kind=kind), "spark-jobs", nav=NAV)
    given = {p.name: request.GET[p.name] for p in KINDS[kind].parameters if p.name in request.GET}
    form = SparkJobForm(KINDS[kind], request.POST or None, initial=given)
    if request.method == "POST" and form.is_valid():
        try:
            job = services.create_spark_job(
                form.cleaned_data["name"],
                kind,
                form.parameters,
                schedule=form.cleaned_data.get("schedule", ""),
                actor=actor(request),
                comment=form.cleaned_data["comment"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Job {name} created. Spark takes up to two minutes to start.").format(name=job.name))
            return redirect_to("spark-job", job.pk)
    required = {p.name: p.label.upper() for p in KINDS[kind].parameters if p.default is None}
    body = {"name": str(form["name"].value() or "NAME"), "kind": kind, "parameters": required}
    status = 400 if form.is_bound and form.errors else 200
    context = {"form": form, "kind": KINDS[kind], "body": body}
    return render_page(request, "console/spark_job_new.html", context, nav=NAV, status=status)


@viewer_required
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    row = selectors.job_row(job_id)
    if row is None:
        return not_found(request, _("Spark job {job_id}").format(job_id=job_id), "spark-jobs", nav=NAV)
    runs = selectors.run_list(job_id, page=page_number(request))
    last = selectors.run_row(row.run_id) if row.run_id is not None else None
    context = {
        "j": row,
        "page": runs,
        "r": last,
        "verbs": [v for v in row.can if v in IMMEDIATE],
        "kind": KINDS.get(row.kind),
    }
    return render_page(request, "console/spark_job.html", context, nav=NAV)


@operator_required
def schedule(request: HttpRequest, job_id: int) -> HttpResponse:
    row = selectors.job_row(job_id)
    if row is None:
        return not_found(request, _("Spark job {job_id}").format(job_id=job_id), "spark-jobs", nav=NAV)
    form = SparkScheduleForm(request.POST or None, initial={"schedule": row.schedule, "version": row.version})
    if request.method == "POST" and form.is_valid():
        try:
            services.schedule_spark_job(
                job_id,
                form.cleaned_data["schedule"],
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                if_version=form.cleaned_data["version"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Schedule of job {name} changed.").format(name=row.name))
            return redirect_to("spark-job", job_id)
    status = 400 if form.is_bound and form.errors else 200
    body = {"schedule": str(form["schedule"].value() or "")}
    context = {"form": form, "j": row, "body": body}
    return render_page(request, "console/spark_job_schedule.html", context, nav=NAV, status=status)


@operator_required
def delete(request: HttpRequest, job_id: int) -> HttpResponse:
    row = selectors.job_row(job_id)
    if row is None:
        return not_found(request, _("Spark job {job_id}").format(job_id=job_id), "spark-jobs", nav=NAV)
    lines = [_("Its tables remain, and so do the pages of its runs.")]
    if row.schedule:
        lines.append(_("Its schedule {schedule} ends.").format(schedule=row.schedule))
    deletion = Deletion(
        title=_("Delete Spark job {name}").format(name=row.name),
        lines=lines,
        button=_("Delete the job"),
        back=reverse("spark-job", args=[job_id]),
        crumb=row.name,
        path=f"spark-jobs/{job_id}",
        message=_("Job {name} deleted. Its tables remain.").format(name=row.name),
        done="spark-jobs",
    )
    return confirm_deletion(
        request,
        deletion,
        lambda comment: services.delete_spark_job(job_id, actor=actor(request), comment=comment),
        nav=NAV,
    )


@viewer_required
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    row = selectors.run_row(run_id)
    if row is None:
        return not_found(request, _("Spark run {run_id}").format(run_id=run_id), "spark-jobs", nav=NAV)
    job = selectors.job_row(row.job_id)
    may_run_again = job is not None and SparkJobVerb.RUN in job.can
    context = {"r": row, "may_run_again": may_run_again, "log": selectors.run_log(run_id).text}
    return render_page(request, "console/spark_run.html", context, nav=NAV)


@require_POST
@operator_required
def act(request: HttpRequest, job_id: int, verb: str) -> HttpResponse:
    if verb not in IMMEDIATE:
        return not_found(request, _("operation “{verb}” of a Spark job").format(verb=verb), "spark-jobs", nav=NAV)
    row = selectors.job_row(job_id)
    name = row.name if row is not None else ""
    return run_immediately(request, IMMEDIATE[verb], job_id, page="spark-job", act="spark-job-act", nav=NAV, name=name)
