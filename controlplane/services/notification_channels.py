"""Notification channels: create, change, delete, test.

Invariants: only administrators change channels, because a channel sends names of the cluster to any address and holds credentials. The address of a
webhook and the secret are in no audit row, no error and no result. Does not contain: deliveries of alerts (`controlplane.services.notifications`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from controlplane.clients.notifications import is_web_address
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import not_one_of
from controlplane.domain.notification import ChannelKind
from controlplane.models import NotificationChannel, NotificationDelivery
from controlplane.models.change import Outcome
from controlplane.selectors.notifications import channel_destination
from controlplane.services.common import AlreadyExists, Rejected, audited, record, record_rejection
from controlplane.services.notifications import attempt_test
from weir_common.phrases import sentence

NEEDS_ADMINISTRATOR = "Notification channels are changed by administrators (superusers)."

CHANNELS_MAX = 50
"""Maximum number of channels. Each second the worker compares each open incident with each channel."""

RECIPIENTS_MAX = 50
"""Maximum number of e-mail addresses of one channel. A longer list belongs to the mail server."""

NAME_CHARS_MAX = 100
"""Maximum number of characters of the name of a channel, as in its column. Names are shown in tables."""

TEXT_CHARS_MAX = 2_000
"""Maximum number of characters of an address or a secret."""

FIELDS = ("name", "enabled", "severity_min", "alert_kinds", "send_resolved", "url", "secret", "recipients")
CREDENTIALS = ("url", "secret")

USES: Mapping[ChannelKind, tuple[str, ...]] = {
    ChannelKind.WEBHOOK: ("url", "secret"),
    ChannelKind.SLACK: ("url",),
    ChannelKind.EMAIL: ("recipients",),
    ChannelKind.PAGERDUTY: ("url", "secret"),
}
"""The fields for the address and the credentials of each kind."""

NEEDS: Mapping[ChannelKind, tuple[str, str]] = {
    ChannelKind.WEBHOOK: ("url", "Enter the address of the webhook."),
    ChannelKind.SLACK: ("url", "Enter the address of the incoming webhook, https://hooks.slack.com/services/..."),
    ChannelKind.EMAIL: ("recipients", "Enter one e-mail address or more."),
    ChannelKind.PAGERDUTY: ("secret", "Enter the integration key of the PagerDuty service."),
}


def check_administrator(user: AbstractBaseUser | AnonymousUser, verb: AuditOperation, name: str) -> None:
    """Raises PermissionDenied after the rejection is written to the audit log."""
    if not (isinstance(user, PermissionsMixin) and user.is_superuser):
        record_rejection(user.get_username(), verb, "notification", name[:255], Rejected(NEEDS_ADMINISTRATOR))
        raise PermissionDenied(NEEDS_ADMINISTRATOR)


@audited(AuditOperation.NOTIFICATION_CREATE, "{name}")
def create_channel(
    *,
    name: str,
    kind: str,
    actor: str,
    comment: str = "",
    enabled: bool = True,
    severity_min: str = Severity.DEGRADED,
    alert_kinds: list[str] | None = None,
    send_resolved: bool = True,
    url: str = "",
    secret: str = "",
    recipients: list[str] | None = None,
) -> NotificationChannel:
    """Store a channel. Incidents that are open are sent to it. Raises Rejected."""
    if kind not in tuple(ChannelKind):
        raise not_one_of("{value} is not a kind of channel; use {allowed}.", kind, ChannelKind, "kind")
    row = NotificationChannel(
        name=name.strip(),
        kind=kind,
        enabled=enabled,
        severity_min=severity_min,
        alert_kinds=list(dict.fromkeys(alert_kinds or [])),
        send_resolved=send_resolved,
        url=url.strip(),
        secret=secret.strip(),
        recipients=list(dict.fromkeys(r.strip() for r in recipients or [])),
        created_by=actor,
    )
    _check(row)
    if NotificationChannel.objects.count() >= CHANNELS_MAX:
        raise Rejected(sentence("There are {max} channels, the maximum; delete one first.", max=CHANNELS_MAX))
    with transaction.atomic():
        _save(row)
        after = audited_values(row)
        record(
            actor,
            AuditOperation.NOTIFICATION_CREATE,
            "notification",
            row.name,
            comment=comment,
            after=after,
            object_id=f"notification-{row.pk}",
            outcome=Outcome.CONFIRMED,
        )
    return row


@audited(AuditOperation.NOTIFICATION_ALTER, "{channel_id}")
def alter_channel(
    channel_id: int, changes: Mapping[str, Any], *, actor: str, comment: str = "", if_version: int | None = None
) -> NotificationChannel:
    """Change the named fields. An empty `url` or `secret` does not change; `secret` None removes it. `if_version`: Rejected if the channel has another
    version. Raises Rejected."""
    with transaction.atomic():
        NotificationChannel.objects.select_for_update().filter(pk=channel_id).first()
        row = _channel(channel_id)
        if if_version is not None and row.version != if_version:
            raise Rejected("The channel was changed after this form was opened. Open it again.")
        before, secrets = audited_values(row), [getattr(row, f) for f in CREDENTIALS]
        for field in FIELDS:
            if field not in changes or (field in CREDENTIALS and changes[field] == ""):
                continue
            value = changes[field]
            if field in ("alert_kinds", "recipients"):
                value = list(dict.fromkeys(v.strip() for v in value))
            setattr(row, field, (value or "").strip() if field in ("name", *CREDENTIALS) else value)
        _check(row)
        row.version += 1
        _save(row)
        after = audited_values(row)
        if secrets != [getattr(row, f) for f in CREDENTIALS]:
            after["credentials"] = "changed"
        record(
            actor,
            AuditOperation.NOTIFICATION_ALTER,
            "notification",
            row.name,
            comment=comment,
            before=before,
            after=after,
            object_id=f"notification-{row.pk}",
            outcome=Outcome.CONFIRMED,
        )
    return row


@audited(AuditOperation.NOTIFICATION_DELETE, "{channel_id}")
def delete_channel(channel_id: int, *, actor: str, comment: str = "") -> None:
    """Delete a channel with its deliveries. Raises Rejected."""
    with transaction.atomic():
        row = _channel(channel_id)
        before = audited_values(row)
        row.delete()
        record(
            actor,
            AuditOperation.NOTIFICATION_DELETE,
            "notification",
            row.name,
            comment=comment,
            before=before,
            object_id=f"notification-{channel_id}",
            outcome=Outcome.CONFIRMED,
        )


@audited(AuditOperation.NOTIFICATION_TEST, "{channel_id}")
def send_test(channel_id: int, *, actor: str, comment: str = "") -> NotificationDelivery:
    """Send a test notification now, also on a disabled channel. The row has the response of the receiver. Raises Rejected."""
    row = _channel(channel_id)
    done = attempt_test(row, f"test-{uuid.uuid4().hex}")
    record(
        actor,
        AuditOperation.NOTIFICATION_TEST,
        "notification",
        row.name,
        comment=comment,
        after={"state": done.state, "error": done.error, "status": done.status},
        object_id=f"notification-{row.pk}",
        outcome=Outcome.CONFIRMED,
    )
    return done


def audited_values(row: NotificationChannel) -> dict[str, object]:
    """A channel without its credentials."""
    return {
        "name": row.name,
        "kind": row.kind,
        "enabled": row.enabled,
        "severity_min": row.severity_min,
        "alert_kinds": row.alert_kinds,
        "send_resolved": row.send_resolved,
        "destination": channel_destination(row),
        "has_secret": bool(row.secret),
    }


def _channel(channel_id: int) -> NotificationChannel:
    row = NotificationChannel.objects.filter(pk=channel_id).first()
    if row is None:
        raise Rejected(
            sentence(
                "Notification channel {channel_id} does not exist; it may have been deleted already.",
                channel_id=channel_id,
            )
        )
    return row


def _save(row: NotificationChannel) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise AlreadyExists(
            sentence("A channel with the name {name} exists already.", name=repr(row.name)), "name"
        ) from None


def _check(row: NotificationChannel) -> None:
    if not row.name or len(row.name) > NAME_CHARS_MAX:
        raise Rejected(sentence("Enter a name of at most {max} characters.", max=NAME_CHARS_MAX), "name")
    if row.severity_min not in tuple(Severity):
        raise not_one_of("{value} is not a severity; use {allowed}.", row.severity_min, Severity, "severity_min")
    unknown = [k for k in row.alert_kinds if k not in tuple(AlertKind)]
    if unknown:
        raise not_one_of("{value} is not a kind of alert; use {allowed}.", unknown[0], AlertKind, "alert_kinds")
    kind = ChannelKind(row.kind)
    for field in ("url", "secret", "recipients"):
        if getattr(row, field) and field not in USES[kind]:
            raise Rejected(sentence("A channel of the kind {kind} has no {field}.", kind=kind, field=field), field)
    field, reason = NEEDS[kind]
    if not getattr(row, field):
        raise Rejected(reason, field)
    if row.url and not is_web_address(row.url):
        raise Rejected("The address is not an http or https address.", "url")
    if "@" in row.url.partition("//")[2].partition("/")[0]:
        raise Rejected("The address contains a user name. Use the secret of the channel instead.", "url")
    for field in CREDENTIALS:
        if len(getattr(row, field)) > TEXT_CHARS_MAX or not getattr(row, field).isprintable():
            raise Rejected(sentence("At most {max} printable characters.", max=TEXT_CHARS_MAX), field)
    if len(row.recipients) > RECIPIENTS_MAX:
        raise Rejected(sentence("At most {max} e-mail addresses.", max=RECIPIENTS_MAX), "recipients")
    for address in row.recipients:
        try:
            validate_email(address)
        except ValidationError:
            raise Rejected(
                sentence("{address} is not an e-mail address.", address=repr(address)), "recipients"
            ) from None
