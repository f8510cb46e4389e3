"""The forms of dead letters: the filters of the list, the reason and target of a sending, the edit of one. Syntax only; the service checks the
meaning."""

from __future__ import annotations

from dataclasses import fields
from typing import Unpack

from django import forms
from django.utils.translation import gettext as _

from console.forms import INPUT_FORMATS, FormData, FormOptions, WeirForm, comment_field, text_area
from console.message_forms import text_field, time_field, unix_ms
from console.texts import gettext_lazy
from controlplane.domain.dead_letters import DeadLetterFilters, DeadLetterKind, ResendTarget, editable_headers
from controlplane.domain.produce import Header, InputFormat, NewRecord, decode_input, headers_of_text
from controlplane.domain.record_query import RecordQuery, StartPosition, partitions_of_text
from controlplane.services import Rejected

ROWS = 50
MATCHING_MAX = 500
"""Dead letters of one sending by filter: the limit of a read."""
FIELDS = {"timestamp_ms": "since", "until_ms": "until", "limit": "partitions", "resume": "partitions"}
"""Field of the form by field of a rejection, where they differ."""


class DeadLetterForm(WeirForm):
    group = text_field(gettext_lazy("Consumer group"), "billing")
    error_contains = text_field(gettext_lazy("Error contains"), "timeout")
    source_begins = text_field(gettext_lazy("Source begins with"), "orders-3@")
    key = text_field(gettext_lazy("Key equals"), "order-4711")
    value_contains = text_field(gettext_lazy("Value contains"), "EUR")
    since = time_field(gettext_lazy("From (UTC)"))
    until = time_field(gettext_lazy("Until (UTC)"))
    partitions = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("all"), "size": 9, "autocomplete": "off"}),
    )

    def query(self, topic: str, limit: int = ROWS) -> RecordQuery:
        """Return the query of the filters. Raises Rejected with the field."""
        values = self.cleaned_data
        since_ms, until_ms = unix_ms(values["since"]), unix_ms(values["until"])
        return RecordQuery(
            topic,
            partitions_of_text(values["partitions"]),
            start=StartPosition.LATEST if since_ms is None else StartPosition.TIMESTAMP,
            timestamp_ms=since_ms,
            limit=limit,
            filters=DeadLetterFilters(**{f.name: values.get(f.name, "") for f in fields(DeadLetterFilters)}),
            all_partitions=True,
            until_ms=None if until_ms is None else until_ms + 999,
        )

    def body(self) -> dict[str, str | int]:
        """The filters as fields of a REST request."""
        v = self.cleaned_data
        times = {"from_ms": unix_ms(v["since"]), "until_ms": unix_ms(v["until"])}
        texts = {n: str(v[n]) for n in self.fields if n not in ("since", "until") and v[n]}
        return {**texts, **{n: at for n, at in times.items() if at is not None}}

    def reject(self, error: Rejected) -> None:
        super().reject(Rejected(error.reason, FIELDS.get(error.field, error.field)))


def target_field(topic: str, kind: DeadLetterKind) -> forms.ChoiceField:
    if kind is DeadLetterKind.SHARE_GROUP:
        labels = {
            ResendTarget.TOPIC: gettext_lazy("The topic of the failed record, for all groups"),
            ResendTarget.RETRY: gettext_lazy("The retry topic of that topic, for the share group that failed"),
        }
    else:
        labels = {
            ResendTarget.RETRY: gettext_lazy("{topic}.retry, for the consumer group that failed").format(topic=topic),
            ResendTarget.TOPIC: gettext_lazy("{topic}, for all consumer groups").format(topic=topic),
        }
    return forms.ChoiceField(label=gettext_lazy("Send to"), choices=[(t.value, label) for t, label in labels.items()])


class SendForm(WeirForm):
    """Form for the target of dead letters and the comment of the operator."""

    def __init__(self, topic: str, kind: DeadLetterKind, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["target"] = target_field(topic, kind)
        self.fields["comment"] = comment_field(required=True)

    @property
    def target(self) -> ResendTarget:
        return ResendTarget(self.cleaned_data["target"])


class EditForm(SendForm):
    """`letter`: the record that would be sent, `partition`: where to. Headers that are not text are kept."""

    key = forms.CharField(
        required=False, strip=False, widget=text_area(1), help_text=gettext_lazy("Empty: no key (null).")
    )
    key_format = forms.ChoiceField(choices=INPUT_FORMATS)
    value = forms.CharField(required=False, strip=False, widget=text_area(8))
    value_format = forms.ChoiceField(choices=INPUT_FORMATS)
    tombstone = forms.BooleanField(required=False, help_text=gettext_lazy("The value is null."))
    headers = forms.CharField(
        required=False,
        widget=text_area(4),
        help_text=gettext_lazy("One per line, name: value. Without a colon the value is null."),
    )

    def __init__(
        self, topic: str, kind: DeadLetterKind, letter: NewRecord, partition: int | None, data: FormData = None
    ) -> None:
        text, self._kept = editable_headers(letter.headers)
        self._letter, self._partition = letter, partition
        key, value = _text_for_edit(letter.key), _text_for_edit(letter.value)
        initial = {
            "key": key[1],
            "key_format": key[0],
            "value": value[1],
            "value_format": value[0],
            "tombstone": letter.value is None,
            "headers": text,
        }
        super().__init__(topic, kind, data, initial=initial)
        if self._kept:
            names = _(", ").join(sorted({name for name, _ in self._kept}))
            self.fields["headers"].help_text += _(
                " These headers are kept unchanged, because they are not text: {names}."
            ).format(names=names)

    def record(self) -> NewRecord:
        """Raises Rejected with the field. A record with the same key goes to the same partition number, another one to the partition of its key."""
        v = self.cleaned_data
        if v["tombstone"] and v["value"]:
            raise Rejected(_("A tombstone has no value. Clear the value, or the tick."), "value")
        key = decode_input(v["key"], InputFormat(v["key_format"]), "key") if v["key"] else None
        # A browser sends line ends as CR LF.
        text = v["value"].replace("\r\n", "\n")
        value = None if v["tombstone"] else decode_input(text, InputFormat(v["value_format"]), "value")
        headers: list[Header] = [*headers_of_text(v["headers"]), *self._kept]
        return NewRecord(key, value, tuple(headers), self._partition if key == (self._letter.key or None) else None)


def _text_for_edit(data: bytes | None) -> tuple[str, str]:
    """(format, text) of a key or value. Bytes that are no text, or that a text field would change, are hexadecimal."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        return InputFormat.HEX.value, (data or b"").hex()
    return (
        (InputFormat.HEX.value, (data or b"").hex()) if "\r" in text or "\0" in text else (InputFormat.TEXT.value, text)
    )
