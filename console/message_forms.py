"""The form of the Messages page: its fields, and the query that they mean. Syntax only; the service checks the meaning."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from django import forms
from django.http import QueryDict

from console.forms import WeirForm
from console.texts import gettext_lazy
from console.vocabulary import rejection_text
from controlplane.domain.formats import LABELS, Format
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import LIMIT_MAX, RecordQuery, StartPosition, partitions_of_text
from controlplane.services import Rejected

STARTS = (
    (StartPosition.LATEST, gettext_lazy("Latest")),
    (StartPosition.MINUTES, gettext_lazy("Time ago")),
    (StartPosition.TIMESTAMP, gettext_lazy("Timestamp")),
    (StartPosition.OFFSET, gettext_lazy("Offset")),
    (StartPosition.EARLIEST, gettext_lazy("Earliest")),
)
MINUTES = (
    (5, gettext_lazy("5 minutes")),
    (15, gettext_lazy("15 minutes")),
    (60, gettext_lazy("1 hour")),
    (6 * 60, gettext_lazy("6 hours")),
    (24 * 60, gettext_lazy("24 hours")),
    (7 * 24 * 60, gettext_lazy("7 days")),
)
FORMATS = [(f.value, gettext_lazy(LABELS[f])) for f in Format]
MINUTES_FIRST = 15
LIMIT_FIRST = 50
DEFAULTS = {"start": StartPosition.LATEST.value, "minutes": str(MINUTES_FIRST), "limit": str(LIMIT_FIRST)}
"""Values of parameters that an address omits."""

FILTER_FIELDS = ("key", "all_partitions", "key_contains", "value_contains", "json", "header", "expression", "until")
TIME_FORMATS = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"]


FIELDS = {"timestamp_ms": "time", "from_ms": "time", "until_ms": "until", "partition": "partitions", "token": "resume"}
"""Field of the form by field of a rejection, where they differ."""


def text_field(label: str, placeholder: str, **options: object) -> forms.CharField:
    attrs = {"autocomplete": "off", "spellcheck": "false", "placeholder": placeholder}
    return forms.CharField(
        label=label,
        required=False,
        strip=False,
        widget=forms.TextInput(attrs=attrs),
        **options,  # type: ignore[arg-type]
    )


def time_field(label: str) -> forms.DateTimeField:
    return forms.DateTimeField(
        required=False,
        label=label,
        input_formats=TIME_FORMATS,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": 1}, format="%Y-%m-%dT%H:%M:%S"),
        error_messages={"invalid": gettext_lazy("Enter 2026-11-21 03:04:05 or 2026-11-21, in UTC.")},
    )


def unix_ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.replace(tzinfo=UTC).timestamp() * 1000)


class MessagesForm(WeirForm):
    topic = forms.CharField(
        max_length=249,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "list": "topic-names"}),
    )
    partitions = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("all"), "size": 9, "autocomplete": "off"}),
    )
    start = forms.ChoiceField(choices=STARTS)
    minutes = forms.TypedChoiceField(choices=MINUTES, coerce=int, empty_value=None, required=False)
    offset = forms.IntegerField(min_value=0, required=False, widget=forms.NumberInput(attrs={"class": "short"}))
    time = time_field(gettext_lazy("Time (UTC)"))
    until = time_field(gettext_lazy("Until (UTC)"))
    limit = forms.IntegerField(min_value=1, max_value=LIMIT_MAX, widget=forms.NumberInput(attrs={"class": "short"}))
    key_format = forms.ChoiceField(choices=FORMATS, required=False)
    value_format = forms.ChoiceField(choices=FORMATS, required=False)
    key = text_field(gettext_lazy("Key equals"), "order-4711")
    all_partitions = forms.BooleanField(required=False, label=gettext_lazy("In all partitions"))
    key_contains = text_field(gettext_lazy("Key contains"), "order-")
    value_contains = text_field(gettext_lazy("Value contains"), "timeout")
    json = text_field(gettext_lazy("JSON path"), '$.flight.carrier == "UA"')
    header = text_field(gettext_lazy("Header"), "trace-id=4f2a")
    expression = text_field(gettext_lazy("Filter expression"), 'value.amount > 100 && headers["region"] == "eu"')

    @classmethod
    def of_address(cls, query: QueryDict) -> Self:
        """Return the data with the defaults of parameters that are omitted."""
        data = query.copy()
        for name, value in DEFAULTS.items():
            data.setdefault(name, value)
        return cls(data)

    def clean_partitions(self) -> tuple[int, ...]:
        try:
            return partitions_of_text(self.cleaned_data["partitions"])
        except Rejected as error:
            raise forms.ValidationError(rejection_text(error)) from error

    def clean_time(self) -> int | None:
        """Milliseconds since 1970."""
        return unix_ms(self.cleaned_data["time"])

    def clean_until(self) -> int | None:
        """Milliseconds since 1970: the last one of that second."""
        until_ms = unix_ms(self.cleaned_data["until"])
        return None if until_ms is None else until_ms + 999

    def reject(self, error: Rejected) -> None:
        super().reject(Rejected(error.reason, FIELDS.get(error.field, error.field)))

    def formats(self) -> tuple[Format, Format]:
        """Return the format of the key and the format of the value."""
        v = self.cleaned_data
        return Format(v["key_format"] or Format.AUTO), Format(v["value_format"] or Format.AUTO)

    def query(self) -> RecordQuery:
        values = self.cleaned_data
        return RecordQuery(
            values["topic"],
            values["partitions"],
            StartPosition(values["start"]),
            offset=values["offset"],
            timestamp_ms=values["time"],
            minutes=values["minutes"],
            limit=values["limit"],
            filters=RecordFilters(
                values["key"],
                values["key_contains"],
                values["value_contains"],
                values["json"].strip(),
                values["header"],
                values["expression"].strip(),
            ),
            all_partitions=values["all_partitions"],
            until_ms=values["until"],
        )
