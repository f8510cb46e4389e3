"""The schema registry: subjects, one version, check and register a schema, delete. A subject is a query parameter, because its name may have a slash."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import DestroyForm, WeirForm, comment_field, text_area
from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    rejected,
    render_page,
    viewer_required,
)
from controlplane.selectors import schema_subjects as selectors
from controlplane.services import Rejected
from controlplane.services import schema_subjects as services

NAV = "topics"
PER_PAGE = 25


class SchemaForm(WeirForm):
    """A schema to check or to register."""

    subject = forms.CharField(
        max_length=services.SUBJECT_CHARS_MAX,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("By TopicNameStrategy: the topic with -value or -key."),
    )
    type = forms.ChoiceField(
        label=gettext_lazy("Type"), choices=[(t, label) for t, label in selectors.SCHEMA_TYPES.items()]
    )
    definition = forms.CharField(
        label=gettext_lazy("Definition"), max_length=services.DEFINITION_CHARS_MAX, widget=text_area(16)
    )
    references = forms.CharField(
        label=gettext_lazy("References"),
        required=False,
        max_length=10_000,
        widget=text_area(2),
        help_text=gettext_lazy("One per line: name, subject and version, separated by spaces."),
    )
    comment = comment_field()

    def schema(self) -> services.NewSchema:
        """Raises Rejected."""
        v = self.cleaned_data
        return services.new_schema(v["type"], v["definition"], v["references"])


@viewer_required
def subject_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    options = list_options(request, "name")
    options["per_page"] = min(options["per_page"], PER_PAGE)
    found = selectors.subject_list(query=query, **options)
    return render_page(request, "console/schema_subjects.html", {"page": found, "q": query}, nav=NAV)


@viewer_required
def subject(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("name", "")
    number, other = _version(request.GET.get("version")), _version(request.GET.get("other"))
    try:
        found = selectors.subject_detail(name, number)
        if found is None:
            return not_found(request, _("subject {name}").format(name=name), "schema-subjects", nav=NAV)
        changed = selectors.difference(name, found.version, other) if other else None
    except Rejected as error:
        return rejected(request, error, "schema-subjects", nav=NAV)
    query = urlencode({"name": name, "version": found.version})
    context = {"s": found, "changed": changed, "other": other, "rest": f"schema-subjects/version?{query}"}
    return render_page(request, "console/schema_subject.html", context, nav=NAV)


@operator_required
def register(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("name", "")
    form = SchemaForm(request.POST or None, initial=_latest(name) | {"subject": name})
    body = {"subject": "SUBJECT", "type": "AVRO", "definition": '"string"', "comment": "REASON"}
    context: dict[str, object] = {"form": form, "body": body}
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            if request.POST.get("step") == "check":
                context["checked"] = services.check_schema(v["subject"], form.schema())
            else:
                made = services.register_schema(v["subject"], form.schema(), actor=actor(request), comment=v["comment"])
                flash(
                    request,
                    _("Version {version} of {subject} has the schema ID {id}.").format(
                        version=made.version, subject=made.subject, id=made.id
                    ),
                )
                return _to_subject(made.subject)
        except Rejected as error:
            form.reject(error)
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/schema_register.html", context, nav=NAV, status=status)


@operator_required
def delete(request: HttpRequest) -> HttpResponse:
    """A version, or with no version the subject."""
    name, number = request.GET.get("name", ""), _version(request.GET.get("version"))
    form = DestroyForm(name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        comment = form.cleaned_data["comment"]
        try:
            if number is None:
                services.delete_subject(name, actor=actor(request), comment=comment)
            else:
                services.delete_version(name, number, actor=actor(request), comment=comment)
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Deleted in the registry. The schemas stay readable by their IDs."))
            return HttpResponseRedirect(reverse("schema-subjects"))
    context = {
        "form": form,
        "name": name,
        "version": number,
        "body": {"name": name, "version": number, "comment": "REASON"},
        "back": f"{reverse('schema-subject')}?{urlencode({'name': name})}",
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/schema_delete.html", context, nav=NAV, status=status)


def _latest(name: str) -> dict[str, object]:
    """The latest version as a start for the next one; empty if there is none."""
    if not name:
        return {}
    try:
        found = selectors.subject_detail(name)
    except Rejected:
        return {}
    if found is None:
        return {}
    lines = "\n".join(f"{r.name} {r.subject} {r.version}" for r in found.references)
    return {"type": found.type, "definition": found.definition, "references": lines}


def _to_subject(name: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"{reverse('schema-subject')}?{urlencode({'name': name})}")


def _version(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
