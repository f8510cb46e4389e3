"""Forms of alerts: a note, a silence, a threshold."""

from __future__ import annotations

from typing import Unpack

from django import forms
from django.utils.translation import gettext as _

from console import vocabulary
from console.forms import FormData, FormOptions, WeirForm, comment_field, version_field
from console.texts import gettext_lazy
from controlplane.domain.alert_thresholds import SUBJECT_CHARS_MAX, ThresholdScope
from controlplane.selectors.alert_thresholds import AlertThresholdRow
from controlplane.services.incidents import NOTE_CHARS_MAX

DURATIONS = (
    (15, gettext_lazy("15 minutes")),
    (60, gettext_lazy("1 hour")),
    (240, gettext_lazy("4 hours")),
    (1440, gettext_lazy("1 day")),
    (10080, gettext_lazy("1 week")),
)


SUBJECT_LABELS = {
    ThresholdScope.BROKER: gettext_lazy("Broker ID"),
    ThresholdScope.GROUP: gettext_lazy("Group"),
    ThresholdScope.TOPIC: gettext_lazy("Topic"),
}


class NoteForm(WeirForm):
    text = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=NOTE_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": gettext_lazy("Write the note.")},
    )


class SilenceForm(WeirForm):
    """Form of a silence: its duration, its alerts and the comment."""

    minutes = forms.TypedChoiceField(label=gettext_lazy("Duration"), choices=DURATIONS, coerce=int, initial=60)
    scope = forms.ChoiceField(
        label=gettext_lazy("Alerts"),
        choices=(
            ("object", gettext_lazy("Of this kind, about this object")),
            ("kind", gettext_lazy("Of this kind, about every object")),
        ),
        initial="object",
    )
    comment = comment_field(required=True)


class ThresholdOverrideForm(WeirForm):
    """The value of a threshold for one object. Without a value, the value of the cluster applies again."""

    subject = forms.CharField(max_length=SUBJECT_CHARS_MAX)
    value = forms.FloatField(required=False, widget=forms.NumberInput(attrs={"class": "short", "step": "any"}))
    comment = comment_field(required=True)
    version = version_field()

    def __init__(self, row: AlertThresholdRow, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["version"].initial = row.version
        self.fields["subject"].label = SUBJECT_LABELS[row.objects]
        field = self.fields["value"]
        field.label = _("Value ({unit})").format(unit=vocabulary.translated(row.unit))
        field.help_text = _(
            "From {minimum:,.0f} to {maximum:,.0f}. Empty: the value of the cluster, {value:,g}."
        ).format(minimum=row.minimum, maximum=row.maximum, value=row.value)


class ThresholdForm(WeirForm):
    value = forms.FloatField(
        required=False, widget=forms.NumberInput(attrs={"class": "short", "step": "any", "autofocus": True})
    )
    comment = comment_field(required=True)
    version = version_field()

    def __init__(self, row: AlertThresholdRow, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["version"].initial = row.version
        field = self.fields["value"]
        field.initial = f"{row.value:g}"
        field.label = _("Value ({unit})").format(unit=vocabulary.translated(row.unit))
        field.help_text = _("From {minimum:,.0f} to {maximum:,.0f}. Empty: the default, {default:,g}.").format(
            minimum=row.minimum, maximum=row.maximum, default=row.default
        )
