"""Log directories of a broker: the directories, their replicas, and the move of a replica to another directory of the same broker."""

from __future__ import annotations

from typing import Unpack

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field
from console.texts import gettext_lazy
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    rejected,
    render_page,
    viewer_required,
)
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.text import size_text
from controlplane.selectors import log_dirs as selectors
from controlplane.selectors.alert_thresholds import current_thresholds
from controlplane.services import Rejected
from controlplane.services import log_dirs as services

ACCEPTED = "confirmed"


class LogDirForm(WeirForm):
    """The directory to which a replica moves. `step` is the review or its confirmation."""

    directory = forms.ChoiceField(label=gettext_lazy("Move to"))
    comment = comment_field(required=True)

    def __init__(
        self, choices: list[tuple[str, int | None]], data: FormData = None, **options: Unpack[FormOptions]
    ) -> None:
        super().__init__(data, **options)
        self.fields["directory"].choices = [  # type: ignore[attr-defined]
            (path, path if free is None else _("{path} ({free} free)").format(path=path, free=size_text(free)))
            for path, free in choices
        ]


@viewer_required
def log_dir_list(request: HttpRequest, broker_id: int) -> HttpResponse:
    query, directory = request.GET.get("q", "").strip(), request.GET.get("directory", "")
    found = selectors.broker_log_dirs(
        broker_id, query=query, directory=directory, **list_options(request, selectors.LARGEST_FIRST)
    )
    if found is None:
        return not_found(request, _("broker {broker_id}").format(broker_id=broker_id), "brokers", nav="brokers")
    healthy = [d for d in found.directories if d.replicas is not None]
    context = {
        "found": found,
        "page": found,
        "q": query,
        "directory": directory,
        "movable": len(healthy) > 1,
        "free_least": current_thresholds().value_for(ThresholdName.DISK_FREE_LOW, str(broker_id)),
        "offline": [d for d in found.directories if d.replicas is None],
        "path": f"brokers/{broker_id}/log-directories/cancel",
        "body": {"topic": "TOPIC", "partition": 0, "comment": "COMMENT"},
    }
    return render_page(request, "console/log_dirs.html", context, nav="brokers")


@operator_required
def move(request: HttpRequest, broker_id: int, topic: str, index: int) -> HttpResponse:
    """The choice of the directory, then the review. The second step starts the move."""
    back = reverse("log-directories", args=[broker_id])
    try:
        source, choices = services.other_directories(broker_id, topic, index)
    except Rejected as error:
        return rejected(request, error, back, nav="brokers")
    form = LogDirForm(choices, request.POST or None)
    context: dict[str, object] = {
        "broker_id": broker_id,
        "name": f"{topic}-{index}",
        "source": source,
        "choices": choices,
        "form": form,
        "back": back,
        "path": f"brokers/{broker_id}/log-directories/move",
        "body": {"topic": topic, "partition": index, "directory": "DIRECTORY", "comment": "COMMENT"},
    }
    if request.method != "POST" or not form.is_valid():
        return _form(request, form, context)
    requested_move = form.cleaned_data
    context["body"] = {"topic": topic, "partition": index, **requested_move}
    try:
        if request.POST.get("step") != "apply":
            context["preview"] = services.preview_log_dir_move(broker_id, topic, index, requested_move["directory"])
            return render_page(request, "console/log_dir_review.html", context, nav="brokers")
        __, outcome = services.move_to_log_dir(
            broker_id,
            topic,
            index,
            requested_move["directory"],
            actor=actor(request),
            comment=requested_move["comment"],
        )
    except Rejected as error:
        form.reject(error)
        return _form(request, form, context)
    if outcome == ACCEPTED:
        flash(
            request,
            _("{topic}-{index} is moving to {directory}.").format(
                topic=topic, index=index, directory=requested_move["directory"]
            ),
        )
    else:
        flash(
            request,
            _("Broker {broker_id} did not respond: it is unknown whether {topic}-{index} moves.").format(
                broker_id=broker_id, topic=topic, index=index
            ),
        )
    return redirect_to("log-directories", broker_id)


@operator_required
def cancel(request: HttpRequest, broker_id: int, topic: str, index: int) -> HttpResponse:
    if request.method != "POST":
        return redirect_to("log-directories", broker_id)
    try:
        outcome = services.cancel_log_dir_move(broker_id, topic, index, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("log-directories", args=[broker_id]), nav="brokers")
    if outcome == ACCEPTED:
        flash(
            request,
            _("The move of {topic}-{index} was cancelled; the replica stays in its directory.").format(
                topic=topic, index=index
            ),
        )
    else:
        flash(
            request,
            _("Broker {broker_id} did not respond: it is unknown whether {topic}-{index} still moves.").format(
                broker_id=broker_id, topic=topic, index=index
            ),
        )
    return redirect_to("log-directories", broker_id)


def _form(request: HttpRequest, form: LogDirForm, context: dict[str, object]) -> HttpResponse:
    status = 400 if form.is_bound else 200
    return render_page(request, "console/log_dir_move.html", context, nav="brokers", status=status)
