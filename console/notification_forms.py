"""Form of a notification channel. Its fields depend on the kind. A credential is never shown: an empty field leaves it as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from django import forms
from django.utils.translation import gettext as _

from console import vocabulary
from console.forms import FormData, FormOptions, WeirForm, comment_field, version_field
from console.texts import gettext_lazy
from controlplane.domain.alert import BRIEFS
from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.notification import ChannelKind
from controlplane.selectors.notifications import NotificationChannelRow
from controlplane.services.notification_channels import NAME_CHARS_MAX, USES

LABELS = {
    ChannelKind.WEBHOOK: gettext_lazy("Webhook"),
    ChannelKind.SLACK: gettext_lazy("Slack"),
    ChannelKind.EMAIL: "E-mail",
    ChannelKind.PAGERDUTY: "PagerDuty",
}
SEVERITIES = (
    (Severity.DEGRADED.value, gettext_lazy("degraded and at risk")),
    (Severity.AT_RISK.value, gettext_lazy("at risk only")),
)
UNCHANGED = gettext_lazy("Is not shown here. Leave empty to keep the present value.")
URL_HELP = {
    ChannelKind.WEBHOOK: gettext_lazy("Weir sends a POST request with JSON to this address for each event."),
    ChannelKind.SLACK: gettext_lazy("Address of an incoming webhook of Slack: https://hooks.slack.com/services/..."),
    ChannelKind.PAGERDUTY: gettext_lazy(
        "Leave empty for https://events.pagerduty.com/v2/enqueue. In the EU region enter https://events.eu.pagerduty.com/v2/enqueue"
    ),
}
SECRET_LABELS = {ChannelKind.WEBHOOK: gettext_lazy("Secret"), ChannelKind.PAGERDUTY: gettext_lazy("Integration key")}
SECRET_HELP = {
    ChannelKind.WEBHOOK: gettext_lazy(
        "Weir signs each request with it (header X-Weir-Signature-256). Leave empty to send no signature."
    ),
    ChannelKind.PAGERDUTY: gettext_lazy("Key of an Events API v2 integration of your PagerDuty service."),
}


def alert_kind_title(kind: str) -> str:
    """The short text of the alerts of a kind, about any object."""
    return vocabulary.translated(BRIEFS[AlertKind(kind)]).format("…")


def _url_field(kind: ChannelKind) -> forms.Field:
    attrs = {"autocomplete": "off", "spellcheck": "false"}
    return forms.CharField(
        label=gettext_lazy("Address"), required=False, help_text=URL_HELP[kind], widget=forms.TextInput(attrs=attrs)
    )


def _secret_field(kind: ChannelKind) -> forms.Field:
    # A browser must not offer to store the key as the password of the console.
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=SECRET_LABELS[kind], required=False, help_text=SECRET_HELP[kind], widget=widget)


def _recipients_field(kind: ChannelKind) -> forms.Field:
    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
    return forms.CharField(
        label=gettext_lazy("Recipients"),
        required=False,
        help_text=gettext_lazy("One e-mail address per line."),
        widget=widget,
    )


FIELDS: dict[str, Callable[[ChannelKind], forms.Field]] = {
    "url": _url_field,
    "secret": _secret_field,
    "recipients": _recipients_field,
}


class ChannelForm(WeirForm):
    """A channel of one kind. `row`: the channel to change."""

    name = forms.CharField(max_length=NAME_CHARS_MAX, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    severity_min = forms.ChoiceField(label=gettext_lazy("Incidents"), choices=SEVERITIES)
    alert_kinds = forms.MultipleChoiceField(
        label=gettext_lazy("Kinds of alerts"),
        required=False,
        choices=lambda: [(k.value, alert_kind_title(k)) for k in AlertKind],
        widget=forms.SelectMultiple(attrs={"size": 8}),
        help_text=gettext_lazy(
            "Select none to send all kinds. An incident is sent if its cause, or an alert that it causes, is of a selected kind."
        ),
    )
    send_resolved = forms.BooleanField(
        label=gettext_lazy("Send resolved"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Send another notification when an incident ends."),
    )
    enabled = forms.BooleanField(required=False, initial=True)
    comment = comment_field()

    def __init__(
        self,
        kind: ChannelKind,
        row: NotificationChannelRow | None,
        data: FormData = None,
        **options: Unpack[FormOptions],
    ) -> None:
        super().__init__(data, **options)
        own = [f for f in FIELDS if f in USES[kind]]
        for field in own:
            self.fields[field] = FIELDS[field](kind)
        if row is not None:
            self.fields["version"] = version_field()
            self.initial = {f: getattr(row, f) for f in self.fields if hasattr(row, f)}
            self.initial["recipients"] = "\n".join(row.recipients)
            for field in ("url", "secret"):
                if field in own and (field == "url" or row.has_secret):
                    self.fields[field].help_text = UNCHANGED
            if kind is ChannelKind.WEBHOOK and row.has_secret:
                self.fields["remove_secret"] = forms.BooleanField(label=_("Remove the secret"), required=False)
                own.append("remove_secret")
        self.order_fields(["name", *own, "severity_min", "alert_kinds", "send_resolved", "enabled", "comment"])

    def clean_recipients(self) -> Sequence[str]:
        return [line.strip() for line in self.cleaned_data["recipients"].splitlines() if line.strip()]

    def values(self) -> dict[str, Any]:
        """The arguments of the service, without the comment and the version."""
        found = {name: value for name, value in self.cleaned_data.items() if name not in ("comment", "version")}
        if found.pop("remove_secret", False):
            found["secret"] = None
        return found
