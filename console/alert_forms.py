"""Forms of alerts: a note, a silence, a threshold."""

from __future__ import annotations

from typing import Any

from django import forms

from console.forms import WeirForm, comment_field
from controlplane.selectors.alert_thresholds import AlertThresholdRow
from controlplane.services.incidents import NOTE_CHARS_MAX

DURATIONS = ((15, "15 minutes"), (60, "1 hour"), (240, "4 hours"), (1440, "1 day"), (10080, "1 week"))


class NoteForm(WeirForm):
    text = forms.CharField(
        label="Note",
        max_length=NOTE_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Write the note."},
    )


class SilenceForm(WeirForm):
    """How long, for which alerts, and why."""

    minutes = forms.TypedChoiceField(label="Duration", choices=DURATIONS, coerce=int, initial=60)
    scope = forms.ChoiceField(
        label="Alerts",
        choices=(("object", "Of this kind, about this object"), ("kind", "Of this kind, about every object")),
        initial="object",
    )
    comment = comment_field(required=True)


class ThresholdForm(WeirForm):
    value = forms.FloatField(
        required=False, widget=forms.NumberInput(attrs={"class": "short", "step": "any", "autofocus": True})
    )
    comment = comment_field(required=True)

    def __init__(self, row: AlertThresholdRow, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["value"]
        field.initial = f"{row.value:g}"
        field.label = f"Value ({row.unit})"
        field.help_text = f"From {row.minimum:,.0f} to {row.maximum:,.0f}. Empty: the default, {row.default:,g}."
