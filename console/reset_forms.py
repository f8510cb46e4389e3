"""Forms of an offset reset and of the removal of a member."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django import forms
from django.utils.translation import gettext as _

from console.forms import WeirForm, comment_field
from console.reset_labels import TARGETS
from console.texts import gettext_lazy
from controlplane.domain.offset_input import duration_ms, offsets_of_text, scope_of_text
from controlplane.domain.offset_reset_types import WAIT_MINUTES_MAX, ResetSpec, ResetTarget
from controlplane.services import Rejected

TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
LISTED_CHARS_MAX = 2_000_000
"""Maximum length of a pasted list of offsets: 20,000 partitions with long topic names."""

VALUE_FIELDS = {"time_ms", "offset", "shift", "source_group", "duration"}
"""Fields of a reset that the form has as one value."""


FORM_TARGETS = {"time": gettext_lazy("Timestamp or time ago")}
"""Labels of targets that the form has in place of `TARGETS`: an applied reset has the timestamp that was computed."""


class ResetForm(WeirForm):
    """The target of a reset. The meaning of `value` depends on the target."""

    target = forms.ChoiceField(
        label=gettext_lazy("Reset to"),
        choices=[(t, FORM_TARGETS.get(t, label)) for t, label in TARGETS.items() if t != "undo"],
        widget=forms.Select(attrs={"autofocus": True}),
    )
    value = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Timestamp: a time in UTC such as 2026-11-21 03:04:05, or how long ago, such as 15m. Offset: a number such as 4200. "
            "Shift: a number of records, -500 is 500 records back. Copy: the ID of the other group."
        ),
    )
    topics = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Topics, separated by spaces: orders is all its partitions, orders:0,3 only partitions 0 and 3. "
            "Leave empty for all partitions with a committed offset."
        ),
    )
    offsets = forms.CharField(
        required=False,
        max_length=LISTED_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Only for a list of offsets: a line topic,partition,offset for each partition, as kafka-consumer-groups --export writes it, or JSON."
        ),
    )

    def spec(self) -> ResetSpec:
        """Raises Rejected with the field of the form."""
        values = self.cleaned_data
        target, value = ResetTarget(values["target"]), values["value"].strip()
        topics, partitions = scope_of_text(values["topics"])
        return ResetSpec(
            target=target,
            topics=topics,
            partitions=partitions,
            time_ms=time_of(value) if target is ResetTarget.TIME else None,
            offset=_number(value, "offset") if target is ResetTarget.OFFSET else None,
            shift=_number(value, "shift") if target is ResetTarget.SHIFT else None,
            source_group=value if target is ResetTarget.GROUP else "",
            offsets=offsets_of_text(values["offsets"]) if target is ResetTarget.FILE else {},
        )

    def reject(self, error: Rejected) -> None:
        field = {"partitions": "topics"}.get(error.field, "value" if error.field in VALUE_FIELDS else error.field)
        super().reject(Rejected(error.reason, field))


class ApplyForm(WeirForm):
    comment = comment_field(required=True)
    wait_minutes = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=WAIT_MINUTES_MAX,
        label=gettext_lazy("Wait, minutes"),
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy(
            "If the group is active: how long to wait until it is empty. Then the reset is computed again. Leave empty not to wait."
        ),
    )


class RemoveMemberForm(WeirForm):
    comment = comment_field(required=True)


def time_of(text: str) -> int:
    """Milliseconds since 1970 of a UTC time, or of a duration before now. Raises Rejected."""
    for form in TIMES:
        try:
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            continue
    try:
        return max(0, time.time_ns() // 1_000_000 - duration_ms(text))
    except Rejected:
        raise Rejected(
            _("Enter a UTC time like 2026-11-21 03:04:05, or how long ago: 15m, 2h, 1d."), "time_ms"
        ) from None


def _number(text: str, field: str) -> int:
    digits = text.lstrip("+-").replace(",", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise Rejected(_("Enter a whole number."), field)
    return -int(digits) if text.startswith("-") else int(digits)
