"""Undecided half messages, of all topics and of one. A decision by an operator is an approval request."""

from __future__ import annotations

from functools import partial

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console import exports
from console.forms import WeirForm
from console.history_charts import page_charts
from console.message_forms import text_field
from console.panels import lazy
from console.record_links import record_url
from console.texts import gettext_lazy
from console.views.shell import list_options, not_found, render_page, viewer_required
from controlplane.selectors import half_messages as selectors
from controlplane.selectors import undecided_half_messages
from controlplane.selectors.half_messages import HalfFilter
from controlplane.selectors.message_metrics import metrics_of
from controlplane.selectors.undecided_half_messages import HalfState

STATES = (
    ("", gettext_lazy("All")),
    (HalfState.OVERDUE.value, gettext_lazy("Overdue")),
    (HalfState.EXPIRING.value, gettext_lazy("Expiring")),
    (HalfState.CHECKED.value, gettext_lazy("Checked")),
    (HalfState.UNCHECKED.value, gettext_lazy("Not checked yet")),
)
DEFAULT_SORT = "written_ms"


class HalfFilterForm(WeirForm):
    id_contains = text_field(gettext_lazy("ID contains"), "order-4711")
    age_s_min = forms.IntegerField(required=False, min_value=0, label=gettext_lazy("Minimum age, s"))
    checks_min = forms.IntegerField(required=False, min_value=0, label=gettext_lazy("Minimum checks"))
    partition = forms.IntegerField(required=False, min_value=0, label=gettext_lazy("Partition"))

    def filter(self) -> HalfFilter:
        v = self.cleaned_data
        return HalfFilter(v["id_contains"], (v["age_s_min"] or 0) * 1000, v["checks_min"] or 0)


@viewer_required
def undecided(request: HttpRequest) -> HttpResponse:
    """Undecided half messages of all topics that the user sees."""
    given = {name: request.GET.get(name, "").strip() for name in ("topic", "state", "q")}
    state = given["state"] if given["state"] in dict(STATES) else ""
    read = partial(undecided_half_messages.undecided_page, topic=given["topic"], state=state, query=given["q"])
    options = list_options(request, DEFAULT_SORT)
    if exports.is_requested(request):
        return exports.response("half-messages", read, options["sort"])
    found = read(**options)
    context = {
        "page": found,
        "csv": True,
        "rows": [
            (
                r,
                record_url(r.front_topic, r.partition, r.offset),
                _propose("half.commit", r.target),
                _propose("half.rollback", r.target),
            )
            for r in found.rows
        ],
        "topic": given["topic"],
        "q": given["q"],
        "state": state,
        "states": STATES,
    }
    return render_page(request, "console/undecided_half_messages.html", context, nav="topics")


@viewer_required
def half_messages(request: HttpRequest, name: str) -> HttpResponse:
    form = HalfFilterForm(request.GET)
    valid = form.is_valid()
    requested = (form.cleaned_data["partition"], 0, form.filter()) if valid else (None, 0)
    found = selectors.undecided_messages(name, *requested)
    if found is None:
        return not_found(request, _("topic with half messages “{name}”").format(name=name), "topics", nav="topics")
    rows = [
        (
            r,
            record_url(found.front_topic, r.partition, r.offset),
            _propose("half.commit", r.target),
            _propose("half.rollback", r.target),
        )
        for r in found.rows
    ]
    context = {
        "found": found,
        "rows": rows,
        "form": form,
        "filtered": valid and any(request.GET.get(n) for n in form.fields),
        "metrics": metrics_of(name),
        "h": lazy(page_charts, request, f"topic:{name}", "half_undecided", "half_oldest_s", "half_expired"),
    }
    return render_page(request, "console/half_messages.html", context, nav="topics", status=200 if valid else 400)


def _propose(kind: str, target: str) -> str:
    """The page that requests the approval of this operation."""
    return f"{reverse('proposal-new')}?{urlencode({'kind': kind, 'target': target})}"
