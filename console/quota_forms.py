"""Forms of client quotas. Byte rates are typed in MB/s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, MegabytesField, WeirForm, comment_field
from console.texts import gettext_lazy
from controlplane.domain.quota import ENTITIES, ENTITY_TYPES, UNITS, Entity, QuotaUnit
from controlplane.domain.text import size_text
from controlplane.selectors.clients import ClientRates
from controlplane.services import Rejected

LABELS = {
    "producer_byte_rate": gettext_lazy("Producer, MB/s"),
    "consumer_byte_rate": gettext_lazy("Consumer, MB/s"),
    "request_percentage": gettext_lazy("Request time, %"),
    "controller_mutation_rate": gettext_lazy("Topic changes, partitions/s"),
    "connection_creation_rate": gettext_lazy("New connections/s"),
}
HELP = {
    "producer_byte_rate": gettext_lazy("Bytes that clients may produce to one broker."),
    "consumer_byte_rate": gettext_lazy("Bytes that clients may fetch from one broker."),
    "request_percentage": gettext_lazy("Time on the event loop of one broker. 100 is the whole loop."),
    "controller_mutation_rate": gettext_lazy("Partitions that clients may create and delete through one broker."),
    "connection_creation_rate": gettext_lazy("Connections that an address may open to one broker."),
}
ADDRESS_LIMIT = "connection_creation_rate"
PRODUCER_LIMIT, CONSUMER_LIMIT = "producer_byte_rate", "consumer_byte_rate"
NAME_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}


def limit_field(quota: str) -> forms.FloatField:
    kind = MegabytesField if UNITS[quota] is QuotaUnit.BYTES_PER_S else forms.FloatField
    widget = forms.NumberInput(attrs={"class": "short", "step": "any"})
    return kind(label=LABELS[quota], required=False, widget=widget, help_text=HELP[quota])


def current_rate(name: str, by_broker: Mapping[int, float], silent: Sequence[int], responses: int) -> str:
    """A sentence about bytes per second by broker. The largest one is first, because a limit applies to each broker. `responses`: number of brokers that
    responded."""
    if not responses:
        return _("The current rate of {name} is unknown: no broker responded.").format(name=name)
    if not by_broker and silent:
        text = _("{name} has no connection to the brokers that responded.").format(name=name)
    elif not by_broker:
        text = _("{name} has no connection now.").format(name=name)
    else:
        broker_id, most = max(by_broker.items(), key=lambda item: item[1])
        template = (
            _("Current rate of {name}: {rate}/s at broker {broker_id}, {total}/s at {brokers} brokers together.")
            if len(by_broker) > 1
            else _("Current rate of {name}: {rate}/s at broker {broker_id}.")
        )
        total = size_text(sum(by_broker.values()))
        text = template.format(
            name=name, rate=size_text(most), broker_id=broker_id, total=total, brokers=len(by_broker)
        )
    if not silent:
        return text
    brokers = _(", ").join(map(str, silent))
    return " ".join([text, _("Brokers without a response: {brokers}.").format(brokers=brokers)])


class LimitsForm(WeirForm):
    """A field for each of `quotas`. An empty field is no limit."""

    def __init__(self, quotas: Iterable[str], data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        for quota in quotas:
            self.fields[quota] = limit_field(quota)

    def show_rates(self, name: str, rates: ClientRates) -> None:
        """Add the current rates of the entity `name` to the help of the byte rates."""
        for quota, by_broker in ((PRODUCER_LIMIT, rates.received), (CONSUMER_LIMIT, rates.sent)):
            self[quota].help_text = format_html(
                "{} <b>{}</b>", HELP[quota], current_rate(name, by_broker, rates.brokers_silent, rates.responses)
            )

    def limits(self) -> dict[str, float | None]:
        return {quota: self.cleaned_data[quota] for quota in UNITS if quota in self.fields}

    def reject(self, error: Rejected) -> None:
        field, __, quota = error.field.partition(".")
        super().reject(Rejected(error.reason, quota or field))


class QuotaLimitsForm(LimitsForm):
    """The limits of one entity. An empty field removes the limit. `seen`: the limits that the form has shown, as JSON."""

    comment = comment_field(required=True)
    seen = forms.JSONField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, entity: Entity, limits: Mapping[str, float], data: FormData = None, **options: Unpack[FormOptions]
    ) -> None:
        own = [q for q in UNITS if (q == ADDRESS_LIMIT) == ("ip" in entity)]
        super().__init__(own, data, **options)
        for quota in own:
            if quota in limits:
                in_mb = UNITS[quota] is QuotaUnit.BYTES_PER_S
                self.initial[quota] = limits[quota] / 1e6 if in_mb else limits[quota]
        self.initial["seen"] = dict(limits)
        self.order_fields([*own, "comment"])


class QuotaForm(LimitsForm):
    """A new quota: its entity and its limits."""

    applies_to = forms.ChoiceField(choices=[(e, e) for e in ENTITIES])
    user = forms.CharField(
        required=False,
        strip=False,
        help_text=gettext_lazy("User name without “User:”. Empty: each user without a quota of its own."),
    )
    client_id = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Client id"),
        help_text=gettext_lazy("Empty: each client ID without a quota of its own."),
    )
    ip = forms.CharField(
        required=False,
        label=gettext_lazy("IP address"),
        help_text=gettext_lazy("Empty: each address without a quota of its own."),
    )
    comment = comment_field()

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(UNITS, data, **options)
        for entity_type, name in NAME_FIELDS.items():
            self._needed_for(name, [e for e, types in ENTITIES.items() if entity_type in types])
        for quota in UNITS:
            self._needed_for(quota, [e for e in ENTITIES if (quota == ADDRESS_LIMIT) == (e == "ip")])
        self.order_fields(["applies_to", *NAME_FIELDS.values(), *UNITS, "comment"])

    def _needed_for(self, name: str, entities: list[str]) -> None:
        self.fields[name].widget.attrs["data-when"] = f"applies_to={'|'.join(entities)}"

    def clean(self) -> dict[str, object]:
        values, given = super().clean(), self.cleaned_data
        types = ENTITIES.get(given.get("applies_to", ""), ())
        for entity_type in ENTITY_TYPES:
            field = NAME_FIELDS[entity_type]
            if entity_type not in types and given.get(field):
                self.add_error(
                    field,
                    _("A quota for {value} has no {entity_type}.").format(
                        value=given.get("applies_to"), entity_type=entity_type
                    ),
                )
        for quota in UNITS:
            if given.get(quota) is not None and (quota == ADDRESS_LIMIT) != ("ip" in types):
                self.add_error(
                    quota, _("A quota for {value} cannot have this limit.").format(value=given.get("applies_to"))
                )
        return values

    def entity(self) -> dict[str, str | None]:
        types = ENTITIES[self.cleaned_data["applies_to"]]
        return {t: self.cleaned_data[NAME_FIELDS[t]] or None for t in types}

    def limits(self) -> dict[str, float | None]:
        return {quota: value for quota, value in super().limits().items() if value is not None}
