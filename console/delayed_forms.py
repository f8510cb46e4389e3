"""The forms of delayed messages: a look-up of pending ones, and the reason of a cancellation. Syntax only; the service checks the meaning."""

from __future__ import annotations

from django import forms

from console.forms import WeirForm
from console.message_forms import text_field, time_field, unix_ms
from console.texts import gettext_lazy
from controlplane.domain.produce import InputFormat, decode_input
from controlplane.selectors.delayed_messages import PendingFilter
from controlplane.services import Rejected

FIELDS = {"from_ms": "due_from", "to_ms": "due_until", "token": "partition"}
"""Field of the form by field of a rejection, where they differ."""
KEY_FORMATS = [(InputFormat.TEXT.value, "text"), (InputFormat.HEX.value, "hex")]


class PendingForm(WeirForm):
    key = text_field(gettext_lazy("Key equals"), "order-4711")
    key_format = forms.ChoiceField(choices=KEY_FORMATS, required=False)
    due_from = time_field(gettext_lazy("Due from (UTC)"))
    due_until = time_field(gettext_lazy("Due before (UTC)"))
    partition = forms.IntegerField(
        required=False,
        min_value=0,
        widget=forms.NumberInput(attrs={"class": "short", "placeholder": gettext_lazy("all")}),
    )
    token = forms.CharField(required=False, max_length=100, widget=forms.HiddenInput)

    def requested_key(self) -> bytes | None:
        """The key of the look-up. Raises Rejected with the field."""
        v = self.cleaned_data
        return decode_input(v["key"], InputFormat(v["key_format"] or InputFormat.TEXT), "key") if v["key"] else None

    def pending_filter(self) -> PendingFilter:
        v = self.cleaned_data
        return {
            "partition": v["partition"],
            "from_ms": unix_ms(v["due_from"]),
            "to_ms": unix_ms(v["due_until"]),
            "token": v["token"],
        }

    def reject(self, error: Rejected) -> None:
        super().reject(Rejected(error.reason, FIELDS.get(error.field, error.field)))
