"""Notification channels: list, one with its deliveries, create, edit, delete, test; deliveries of the last days."""

from __future__ import annotations

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.notification_forms import LABELS, ChannelForm
from console.views.actions import Deletion, confirm_deletion
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
from console.vocabulary import rejection_text
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.notification import ChannelKind, DeliveryState
from controlplane.selectors import notifications
from controlplane.services import Rejected
from controlplane.services import notification_channels as services

EXAMPLES: dict[ChannelKind, dict[str, object]] = {
    ChannelKind.WEBHOOK: {"url": "https://example.com/hooks/weir", "secret": "SECRET"},
    ChannelKind.SLACK: {"url": "https://hooks.slack.com/services/..."},
    ChannelKind.EMAIL: {"recipients": ["oncall@example.com"]},
    ChannelKind.PAGERDUTY: {"secret": "INTEGRATION_KEY"},
}
STATES = (DeliveryState.DELIVERED, DeliveryState.RETRYING, DeliveryState.FAILED)


@viewer_required
def channel_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = notifications.channel_list(query=query, **list_options(request, "name"))
    return render_page(
        request, "console/notifications.html", {"page": found, "q": query, "tab": "notifications"}, nav="alerts"
    )


@viewer_required
def delivery_list(request: HttpRequest) -> HttpResponse:
    query, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    state = state if state in STATES else ""
    found = notifications.delivery_list(query=query, state=state, **list_options(request, "-created_at"))
    context = {"page": found, "q": query, "state": state, "states": STATES, "tab": "notifications"}
    return render_page(request, "console/notification_deliveries.html", context, nav="alerts")


@viewer_required
def channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    row = notifications.channel_row(channel_id)
    if row is None:
        return _missing(request, channel_id)
    page = notifications.delivery_list(channel=channel_id, **list_options(request, "-created_at"))
    return render_page(request, "console/notification.html", {"c": row, "page": page, "verbs": ["test"]}, nav="alerts")


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    requested = request.GET.get("kind", "")
    kind = ChannelKind(requested) if requested in tuple(ChannelKind) else ChannelKind.WEBHOOK
    form = ChannelForm(kind, None, request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = form.values()
        try:
            services.check_administrator(request.user, AuditOperation.NOTIFICATION_CREATE, values["name"])
            row = services.create_channel(
                kind=kind, actor=actor(request), comment=form.cleaned_data["comment"], **values
            )
        except PermissionDenied as error:
            return _permission_denied_page(request, error)
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Channel {name} created. Send a test notification to verify it.").format(name=row.name))
            return redirect_to("notification", row.pk)
    context = {
        "form": form,
        "kind": kind,
        "kinds": [(k.value, label) for k, label in LABELS.items()],
        "body": {"name": "ops", "kind": kind, **EXAMPLES[kind]},
    }
    return render_page(request, "console/notification_new.html", context, nav="alerts", status=_status(form))


@operator_required
def edit(request: HttpRequest, channel_id: int) -> HttpResponse:
    row = notifications.channel_row(channel_id)
    if row is None:
        return _missing(request, channel_id)
    form = ChannelForm(ChannelKind(row.kind), row, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.check_administrator(request.user, AuditOperation.NOTIFICATION_ALTER, str(channel_id))
            services.alter_channel(
                channel_id,
                form.values(),
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                if_version=form.cleaned_data["version"],
            )
        except PermissionDenied as error:
            return _permission_denied_page(request, error)
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Channel {name} changed.").format(name=form.cleaned_data["name"]))
            return redirect_to("notification", channel_id)
    context = {"c": row, "form": form, "body": {"enabled": not row.enabled}, "path": f"notification-channels/{row.id}"}
    return render_page(request, "console/notification_edit.html", context, nav="alerts", status=_status(form))


@operator_required
def delete(request: HttpRequest, channel_id: int) -> HttpResponse:
    row = notifications.channel_row(channel_id)
    if row is None:
        return _missing(request, channel_id)

    def delete_it(comment: str) -> None:
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_DELETE, str(channel_id))
        services.delete_channel(channel_id, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete notification channel {name}").format(name=row.name),
        lines=[
            _("No more alerts are sent to {destination}, nor the end of alerts that were sent.").format(
                destination=row.destination
            ),
            _("The list of its deliveries is deleted."),
        ],
        button=_("Delete the channel"),
        back=reverse("notification", args=[channel_id]),
        crumb=row.name,
        path=f"notification-channels/{channel_id}",
        message=_("Channel {name} deleted.").format(name=row.name),
        done="notifications",
    )
    return confirm_deletion(request, deletion, delete_it, nav="alerts")


@require_POST
@operator_required
def send_test(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Sends while the operator waits, some seconds at most, to show the response of the receiver."""
    try:
        services.check_administrator(request.user, AuditOperation.NOTIFICATION_TEST, str(channel_id))
        done = services.send_test(channel_id, actor=actor(request))
    except PermissionDenied as error:
        return _permission_denied_page(request, error)
    except Rejected as error:
        return rejected(request, error, reverse("notifications"), nav="alerts")
    response = " ".join(part for part in (str(done.status or ""), " ".join(done.answer.split())[:300]) if part)
    success = done.state == DeliveryState.DELIVERED
    message = _("Test notification delivered: {response}") if success else _("Test notification failed: {response}")
    flash(request, message.format(response=response))
    return redirect_to("notification", channel_id)


def _missing(request: HttpRequest, channel_id: int) -> HttpResponse:
    return not_found(
        request, _("notification channel {channel_id}").format(channel_id=channel_id), "notifications", nav="alerts"
    )


def _permission_denied_page(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return render_page(request, "console/denied.html", {"reason": rejection_text(error)}, nav="alerts", status=403)


def _status(form: forms.BaseForm) -> int:
    return 400 if form.is_bound and form.errors else 200
