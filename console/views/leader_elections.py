"""Election of preferred leaders: the review of one partition, a topic or the cluster, and its confirmation. The result is the row of the audit log."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import WeirForm, comment_field
from console.texts import counted
from console.views.shell import actor, flash, not_found, redirect_to, rejection, render_page, viewer_required
from controlplane.selectors.leader_elections import ElectionPreview, election_preview
from controlplane.services import Rejected
from controlplane.services import leader_elections as services

ROWS_SHOWN = 200
"""Partitions of the review. The counts are over all."""


class ElectionForm(WeirForm):
    comment = comment_field()


@viewer_required
def preferred(request: HttpRequest) -> HttpResponse:
    topic, text = request.GET.get("topic", "").strip(), request.GET.get("partition", "")
    partition = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    preview = election_preview(topic, partition) if topic or not text else None
    nav = "topics" if topic else "brokers"
    if preview is None or (text and partition is None):
        what = (
            _("partition {topic}-{text}").format(topic=topic, text=text)
            if text
            else _("topic {topic}").format(topic=topic)
        )
        return not_found(request, what, "topics", nav="topics")
    form = ElectionForm(request.POST or None)
    if request.method == "POST":
        if reason := rejection(request):
            return render_page(request, "console/denied.html", {"reason": reason}, nav=nav, status=403)
        if form.is_valid():
            try:
                result = services.elect_preferred_leaders(
                    topic, partition, actor=actor(request), comment=form.cleaned_data["comment"]
                )
            except Rejected as error:
                form.reject(error)
            else:
                flash(request, _message(result))
                return redirect_to("change", result.change_id)
    status = 409 if form.is_bound and form.errors else 200
    return render_page(request, "console/leader_elections.html", _context(preview, form), nav=nav, status=status)


def _context(preview: ElectionPreview, form: ElectionForm) -> dict[str, object]:
    topic, partition = preview.topic, preview.partition
    scope = (
        _(" of {topic}").format(topic=topic)
        if partition is None and topic
        else ""
        if partition is None
        else _(" of {topic}-{partition}").format(topic=topic, partition=partition)
    )
    back = reverse("brokers")
    if topic:
        back = reverse("topic", args=[topic]) if partition is None else reverse("partition", args=[topic, partition])
    return {
        "preview": preview,
        "considered": len(preview.rows),
        "shown": preview.rows[:ROWS_SHOWN],
        "not_shown": max(0, len(preview.rows) - ROWS_SHOWN),
        "form": form,
        "heading": (_("Elect preferred leaders") if partition is None else _("Elect preferred leader")) + scope,
        "button": _("Elect {electable}").format(electable=counted(preview.electable, "preferred leader")),
        "back": back,
        "body": {
            **({"topic": topic} if topic else {}),
            **({} if partition is None else {"partition": partition}),
            "comment": "COMMENT",
        },
    }


def _message(result: services.PreferredElection) -> str:
    counts = {
        _("elected"): result.confirmed,
        _("unchanged"): result.unchanged,
        _("rejected"): result.refused,
        _("with an unknown outcome"): result.unknown,
    }
    listed = _(", ").join(f"{count:,} {what}" for what, count in counts.items() if count)
    return _("Preferred leaders: {listed}.").format(listed=listed) if listed else _("No partition needed an election.")
