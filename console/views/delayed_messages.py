"""Delayed messages of a topic: how many are pending and when they are due, a look-up, and the cancellation of one with its preview."""

from __future__ import annotations

from datetime import UTC, datetime

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.delayed_forms import PendingForm
from console.forms import ReasonForm
from console.history_charts import page_charts
from console.panels import lazy
from console.views.shell import (
    flash,
    not_found,
    operator_required,
    rejected,
    render_page,
    viewer_required,
)
from console.vocabulary import rejection_text
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.delayed_messages import HistogramBar
from controlplane.selectors import delayed_messages as selectors
from controlplane.selectors.alert_thresholds import current_thresholds
from controlplane.selectors.delayed_messages import PendingRow
from controlplane.services import Rejected, produce
from controlplane.services import delayed_messages as services
from controlplane.services.delayed_messages import CancelState

MS_PER_S = 1000
COUNTED = 1
"""A tombstone cancels all pending records with its key. With this number of them it cancels only the chosen record."""


@viewer_required
def delayed_messages(request: HttpRequest, name: str) -> HttpResponse:
    found = selectors.delayed_messages(name)
    if found is None:
        return _no_topic(request, name)
    form = PendingForm(request.GET)
    context: dict[str, object] = {
        "found": found,
        "form": form,
        "late": found.overdue_ms >= current_thresholds().value_for(ThresholdName.DELAYED_OVERDUE, name) * MS_PER_S,
        "bars": [(bar, _due_range(bar)) for bar in found.histogram],
        "h": lazy(page_charts, request, f"topic:{name}", "delayed_pending", "delayed_overdue_s"),
    }
    if form.is_valid():
        try:
            listed = services.look_up(request.user, name, key=form.requested_key(), **form.pending_filter())
        except Rejected as error:
            form.reject(error)
        except PermissionDenied as error:
            context["denied_key"] = rejection_text(error)
        else:
            if listed is not None:
                context |= {"list": listed, "rows": [(r, _record_url(listed.front_topic, r)) for r in listed.rows]}
    status = 403 if "denied_key" in context else 400 if form.errors else 200
    return render_page(request, "console/delayed_messages.html", context, nav="topics", status=status)


@operator_required
def cancel(request: HttpRequest, name: str, partition: int, offset: int) -> HttpResponse:
    """The preview with the number of records, then the tombstone."""
    back = reverse("delayed-messages", args=[name])
    if listed := request.GET.urlencode():
        back = f"{back}?{listed}#pending"  # the look-up that led here
    form = ReasonForm(request.POST or None)
    try:
        if request.method == "POST" and form.is_valid():
            result = services.cancel(request.user, name, partition, offset, comment=form.cleaned_data["comment"])
            if result is None:
                return _no_topic(request, name)
            if result.state == CancelState.REJECTED:
                raise Rejected(result.detail)
            message = _("Tombstone written for offset {offset} of partition {partition}. {detail}").format(
                offset=offset, partition=partition, detail=result.detail
            )
            if result.cancelled > COUNTED:
                message += " " + _("It cancels {found} records with this key.").format(found=result.cancelled)
            flash(request, message)
            return HttpResponseRedirect(back)
        found = services.preview_cancel(request.user, name, partition, offset)
    except PermissionDenied as error:
        return render_page(request, "console/denied.html", {"reason": rejection_text(error)}, nav="topics", status=403)
    except Rejected as error:
        return rejected(request, error, back, nav="topics")
    if found is None:
        return _no_topic(request, name)
    context = {
        "title": _("{cancel} to {name}").format(cancel=_cancel(found), name=name),
        "crumb": _("Delayed messages"),
        "form": form,
        "lines": [*_lines(found), *filter(None, [produce.produce_denial(request.user, name)])],
        "button": _cancel(found),
        "fatal": True,
        "back": back,
        "back_label": _("Do not cancel"),
        "method": "POST",
        "path": f"topics/{name}/delayed-messages/cancel",
        "body": {"partition": partition, "offset": offset, "comment": "COMMENT"},
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav="topics", status=status)


def _due_range(bar: HistogramBar) -> str:
    """The query of a look-up of the records of this bar."""
    times = {"due_from": bar.from_ms, "due_until": bar.to_ms}
    return urlencode({name: _utc(ms).strftime("%Y-%m-%dT%H:%M:%S") for name, ms in times.items() if ms is not None})


def _record_url(front_topic: str, row: PendingRow) -> str:
    """The record on the Messages page."""
    query: dict[str, str | int] = {
        "topic": front_topic,
        "partitions": row.partition,
        "start": "offset",
        "offset": row.offset,
        "limit": 1,
    }
    return f"{reverse('messages')}?{urlencode(query)}"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _count(preview: services.CancelPreview) -> str:
    return _("{same_key} or more").format(same_key=preview.same_key) if preview.more else str(preview.same_key)


def _cancel(preview: services.CancelPreview) -> str:
    """The operation with the number of deliveries that it cancels."""
    count = preview.same_key
    if preview.more:
        return _("Cancel {count} or more deliveries").format(count=count)
    return ngettext("Cancel {count} delivery", "Cancel {count} deliveries", count).format(count=count)


def _lines(preview: services.CancelPreview) -> list[str]:
    due = _utc(preview.deliver_at_ms)
    key = _("Its key is hidden from you.") if preview.key is None else _("Its key is {key!r}.").format(key=preview.key)
    lines = [
        _("This cannot be undone."),
        _(
            "The record at offset {offset} of {front_topic}-{partition} is due {due:%Y-%m-%d %H:%M:%S} UTC. {key}"
        ).format(offset=preview.offset, front_topic=preview.front_topic, partition=preview.partition, due=due, key=key),
        _("A tombstone with its key is written to {front_topic}-{partition}.").format(
            front_topic=preview.front_topic, partition=preview.partition
        ),
    ]
    if preview.same_key > COUNTED or preview.more:
        lines.append(
            _("It cancels {found} pending records: those with the same key in this partition.").format(
                found=_count(preview)
            )
        )
    lines.append(
        _("The record is not delivered to {topic} if the tombstone is acknowledged before the delivery time.").format(
            topic=preview.topic
        )
    )
    return lines


def _no_topic(request: HttpRequest, name: str) -> HttpResponse:
    return not_found(request, _("topic with delayed messages “{name}”").format(name=name), "topics", nav="topics")
