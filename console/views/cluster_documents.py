"""Cluster documents: compare a document, plan and apply it, its drift, the export.

Invariants: a comparison stores nothing, and every user may make one. A plan has the digest of the comparison that was shown, and an applied plan
that of the plan. Does not contain: what a document means (`controlplane.domain.cluster_document`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms import DestroyForm, ReasonForm, WeirForm, text_area
from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    page_number,
    redirect_to,
    rejected,
    render_page,
    viewer_required,
)
from controlplane.domain.cluster_document import OWNER_LENGTH_MAX, InvalidDocument
from controlplane.selectors import cluster_documents as selectors
from controlplane.selectors.cluster_documents import DocumentStepRow
from controlplane.selectors.paging import Page, numbered_page
from controlplane.services import Rejected
from controlplane.services import cluster_documents as services
from weir_common.document_text import DOCUMENT_BYTES_MAX, UnreadableDocument, read_document, write_document

NAV = "topics"
STEPS_PER_PAGE = 100
STEPS_SHOWN_MAX = 200
"""Maximum number of steps and rejections of a comparison that the page lists; it counts the rest."""
ACTIONS = {
    "create": ("blue", gettext_lazy("create")),
    "alter": ("amber", gettext_lazy("change")),
    "manage": ("grey", gettext_lazy("record the owner")),
    "delete": ("red", gettext_lazy("delete")),
}
"""{action of a step: (tone, label)}"""
EXAMPLE = {"version": 1, "owner": "payments", "topics": [{"name": "payments.orders", "partitions": 12}]}


class ComparisonArguments(TypedDict):
    """The document as `read_document` parsed it, and the options of its comparison."""

    document: dict[str, object]
    prune: bool
    take_over: bool


class DocumentForm(WeirForm):
    """A document, pasted or uploaded. `document`: its text; `value()`: its values."""

    document = forms.CharField(
        label=gettext_lazy("Document"),
        required=False,
        widget=text_area(16),
        help_text=gettext_lazy("YAML or JSON with topics, acls, quotas, routes and more, for example an export."),
    )
    file = forms.FileField(
        label=gettext_lazy("Or a file"),
        required=False,
        widget=forms.FileInput(attrs={"accept": ".yaml,.yml,.json"}),
        help_text=gettext_lazy("A file replaces the text above."),
    )
    prune = forms.BooleanField(
        label=gettext_lazy("Delete resources that the document does not have"),
        required=False,
        help_text=gettext_lazy("Deletes resources that the owner manages and the document does not have."),
    )
    take_over = forms.BooleanField(
        label=gettext_lazy("Take over"),
        required=False,
        help_text=gettext_lazy("Also takes resources that another owner manages."),
    )

    def __init__(self, request: HttpRequest) -> None:
        if request.method != "POST":
            super().__init__()
            return
        data, self.unreadable = request.POST.copy(), ""
        if (file := request.FILES.get("file")) is not None:
            text, self.unreadable = _text_of(file)
            data["document"] = text
        super().__init__(data)

    def clean_document(self) -> dict[str, object]:
        text: str = self.cleaned_data["document"]
        if self.unreadable:
            raise forms.ValidationError(self.unreadable)
        if not text.strip():
            raise forms.ValidationError(_("Paste a document, or choose a file."))
        try:
            return read_document(text)
        except UnreadableDocument as e:
            raise forms.ValidationError(str(e)) from None

    @property
    def comparison(self) -> ComparisonArguments:
        v = self.cleaned_data
        return ComparisonArguments(document=v["document"], prune=v["prune"], take_over=v["take_over"])


class ExportForm(WeirForm):
    name_prefix = forms.CharField(
        label=gettext_lazy("Prefix"),
        required=False,
        max_length=249,
        help_text=gettext_lazy("Only topics and routes with this prefix."),
    )
    owner = forms.CharField(
        required=False,
        max_length=OWNER_LENGTH_MAX,
        help_text=gettext_lazy("Only resources that the documents of this owner manage."),
    )


@dataclass(frozen=True, slots=True)
class _ShownStep:
    """A step with its texts. `changes`: (field, before, after)."""

    step: DocumentStepRow
    tone: str
    label: str
    changes: list[tuple[str, str, str]]


@viewer_required
def document_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    context = {
        "page": selectors.plan_list(query=query, **list_options(request, "-id")),
        "q": query,
        "last": selectors.last_applied_rows(),
        "form": ExportForm(),
    }
    return render_page(request, "console/documents.html", context, nav=NAV)


@viewer_required
def compare(request: HttpRequest) -> HttpResponse:
    form = DocumentForm(request)
    context: dict[str, object] = {"form": form, "body": {"document": EXAMPLE, "prune": False}}
    if form.is_bound and form.is_valid():
        try:
            found = selectors.difference_row(services.compare_document(**form.comparison))
        except InvalidDocument as faults:
            context["faults"] = faults.problems[:STEPS_SHOWN_MAX]
            context["faults_more"] = max(0, len(faults.problems) - STEPS_SHOWN_MAX)
        else:
            context |= {
                "found": found,
                "steps": _display_steps(found.steps[:STEPS_SHOWN_MAX]),
                "steps_more": max(0, len(found.steps) - STEPS_SHOWN_MAX),
                "refusals": found.refusals[:STEPS_SHOWN_MAX],
                "refusals_more": max(0, len(found.refusals) - STEPS_SHOWN_MAX),
            }
    status = 400 if form.is_bound and (form.errors or "faults" in context) else 200
    return render_page(request, "console/document_compare.html", context, nav=NAV, status=status)


@require_POST
@operator_required
def plan_new(request: HttpRequest) -> HttpResponse:
    """Store the comparison that was shown as a plan, and open its application."""
    form = DocumentForm(request)
    try:
        if not form.is_valid():
            raise Rejected(_("The document is not valid any more. Compare it again."))
        found = selectors.difference_row(services.compare_document(**form.comparison))
        if found.digest != request.POST.get("digest"):
            raise Rejected(_("The cluster has changed since the comparison. Compare the document again."))
        row = services.plan_document(**form.comparison, actor=actor(request))
    except InvalidDocument as faults:
        return rejected(request, Rejected(str(faults)), "document-compare", nav=NAV)
    except Rejected as error:
        return rejected(request, error, "document-compare", nav=NAV)
    return redirect_to("document-apply", row.pk)


@viewer_required
def plan(request: HttpRequest, plan_id: int) -> HttpResponse:
    row = selectors.plan_detail(plan_id)
    if row is None:
        return _no_plan(request, plan_id)
    page, steps = _page_of(request, row.steps)
    context = {"p": row, "page": page, "steps": steps, "results": True, "path": f"document-plans/{row.id}"}
    return render_page(request, "console/document_plan.html", context, nav=NAV)


@operator_required
def apply(request: HttpRequest, plan_id: int) -> HttpResponse:
    row = selectors.plan_detail(plan_id)
    if row is None:
        return _no_plan(request, plan_id)
    form: ReasonForm | DestroyForm
    if row.deletes:
        form = DestroyForm(str(row.deletes), request.POST or None)
        form.fields["confirm_name"].label = _("Number of deletions")
    else:
        form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.apply_plan(
                row.id,
                request.POST.get("digest", ""),
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                is_administrator=bool(getattr(request.user, "is_superuser", False)),
            )
        except Rejected as error:
            form.reject(error)
        else:
            after = selectors.plan_detail(row.id) or row
            if after.applied_at is not None:
                flash(request, _("Document plan {id} is applied.").format(id=row.id))
            return redirect_to("document-plan", row.id)
    page, steps = _page_of(request, row.steps)
    body = {"digest": row.digest, "comment": "COMMENT"}
    context: dict[str, object] = {"p": row, "form": form, "page": page, "steps": steps, "body": body}
    context |= {
        "results": bool(row.failed),
        "path": f"document-plans/{row.id}/apply",
        "typed": str(row.deletes) if row.deletes else "",
        "deletes_topics": any(s.deletes_records for s in row.steps),
        "button": _apply_label(len(row.steps), row.deletes),
    }
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/document_apply.html", context, nav=NAV, status=status)


def _apply_label(steps: int, deletions: int) -> str:
    label = ngettext("Apply {count} step", "Apply {count} steps", steps).format(count=f"{steps:,}")
    if not deletions:
        return label
    return label + ngettext(", {count} deletion", ", {count} deletions", deletions).format(count=f"{deletions:,}")


@require_POST
@operator_required
def plan_again(request: HttpRequest, plan_id: int) -> HttpResponse:
    """Store the drift of an applied plan as a new plan of the same document, and open its application."""
    try:
        row = services.plan_again(plan_id, actor=actor(request))
    except InvalidDocument as faults:
        return rejected(request, Rejected(str(faults)), "documents", nav=NAV)
    except Rejected as error:
        return rejected(request, error, "documents", nav=NAV)
    return redirect_to("document-apply", row.pk)


@viewer_required
def drift(request: HttpRequest, plan_id: int) -> HttpResponse:
    row = selectors.plan_detail(plan_id)
    if row is None:
        return _no_plan(request, plan_id)
    try:
        found = selectors.difference_row(services.drift_of(plan_id))
    except Rejected as error:
        return rejected(request, error, "documents", nav=NAV)
    page, steps = _page_of(request, found.steps)
    context = {"p": row, "found": found, "refusals": found.refusals[:STEPS_SHOWN_MAX], "page": page, "steps": steps}
    context["path"] = f"document-plans/{row.id}/drift"
    return render_page(request, "console/document_drift.html", context, nav=NAV)


@viewer_required
def export(request: HttpRequest) -> HttpResponse:
    """The current state as a YAML file."""
    form = ExportForm(request.GET)
    if not form.is_valid():
        return rejected(request, Rejected(_("The prefix or the owner is too long.")), "documents", nav=NAV)
    try:
        document = selectors.export(prefix=form.cleaned_data["name_prefix"], owner=form.cleaned_data["owner"])
    except Rejected as error:
        return rejected(request, error, "documents", nav=NAV)
    response = HttpResponse(write_document(document), content_type="application/yaml; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="cluster.yaml"'
    return response


def _no_plan(request: HttpRequest, plan_id: int) -> HttpResponse:
    return not_found(request, _("document plan {plan_id}").format(plan_id=plan_id), "documents", nav=NAV)


def _text_of(file: UploadedFile[Any]) -> tuple[str, str]:
    """(text of an uploaded file, why it cannot be read or "")."""
    if (file.size or 0) > DOCUMENT_BYTES_MAX:
        return "", _("The file has more than {most:,} bytes. Divide the document.").format(most=DOCUMENT_BYTES_MAX)
    try:
        return file.read().decode(), ""
    except UnicodeDecodeError:
        return "", _("The file is not UTF-8 text.")


def _page_of(request: HttpRequest, steps: Sequence[DocumentStepRow]) -> tuple[Page[DocumentStepRow], list[_ShownStep]]:
    start, window = numbered_page(len(steps), page_number(request), STEPS_PER_PAGE)
    rows = list(steps[start : start + STEPS_PER_PAGE])
    return Page(rows, len(steps), window, "", ""), _display_steps(rows)


def _display_steps(steps: Sequence[DocumentStepRow]) -> list[_ShownStep]:
    return [
        _ShownStep(s, *ACTIONS[s.action], [(c.field, _value(c.before), _value(c.after)) for c in s.changes])
        for s in steps
    ]


def _value(value: object) -> str:
    if value is None:
        return _("not set")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a limit of a quota
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
