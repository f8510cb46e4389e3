"""What operators type, read into what services take. Law: shapes only (numbers are numbers, lines are name=value); whether it makes sense is
the service's word, which comes back as a sentence beside the field it names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django import forms

from controlplane.selectors.messages import RECORDS_MAX
from controlplane.services import Refused
from controlplane.services.acls import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from controlplane.windows import DAYS

WHY_CHARS_MAX = 500


class WeirForm(forms.Form):
    """A form whose refusals from services land beside their fields; those of what nobody sees, above them all."""

    use_required_attribute = False

    def refuse(self, error: Refused) -> None:
        field = error.field.partition(".")[0]
        seen = field in self.fields and not self[field].is_hidden
        self.add_error(field if seen else None, error.reason)

    def clean(self) -> dict[str, Any]:
        return super().clean() or {}


def why_field(*, required: bool = False) -> forms.CharField:
    """`required`: of an act that copies or destroys data."""
    return forms.CharField(
        label="Why", required=required, max_length=WHY_CHARS_MAX, help_text="Kept with the change in the audit.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "Give a reason; it is kept in the audit."},
    )  # fmt: skip


class MegabytesField(forms.FloatField):
    """Typed in MB (10^6 bytes), kept in bytes; empty is None."""

    def clean(self, value: Any) -> int | None:
        mb = super().clean(value)
        return None if mb is None else round(mb * 1e6)


def throttle_field(*, autofocus: bool = False) -> MegabytesField:
    attrs: dict[str, Any] = {"class": "short", "step": "any", **({"autofocus": True} if autofocus else {})}
    return MegabytesField(
        label="Throttle, MB/s", required=False, widget=forms.NumberInput(attrs=attrs),
        help_text="Per broker; empty for none. Replicas in sync are never held back.",
    )  # fmt: skip


def cap_field(initial: int, label: str, help_text: str) -> forms.IntegerField:
    return forms.IntegerField(
        initial=initial, widget=forms.NumberInput(attrs={"class": "short"}), label=label, help_text=help_text
    )


class TopicForm(WeirForm):
    name = forms.CharField(max_length=1000, widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
                           help_text="Letters, digits, '.', '_' and '-'; at most 249.")  # fmt: skip
    partitions = forms.IntegerField(
        initial=3, widget=forms.NumberInput(attrs={"class": "short"}), help_text="Can grow later, never shrink."
    )
    replication_factor = forms.IntegerField(
        required=False, widget=forms.NumberInput(attrs={"class": "short"}),
        help_text="Empty: three, or as many as there are living brokers.",
    )  # fmt: skip
    configs = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text="One name=value per line, for instance retention.ms=86400000. Others have their defaults.",
    )  # fmt: skip
    why = why_field()

    def clean_configs(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.cleaned_data["configs"].splitlines():
            if not line.strip():
                continue
            name, equals, value = line.partition("=")
            if not equals:
                raise forms.ValidationError(f"“{line.strip()}” has no '='; write name=value.")
            found[name.strip()] = value.strip()
        return found


class AclForm(WeirForm):
    resource_type = forms.ChoiceField(choices=[(w, w.replace("_", " ")) for w in RESOURCE_TYPES])
    pattern_type = forms.ChoiceField(choices=[(w, w) for w in PATTERN_TYPES], initial="literal")
    resource_name = forms.CharField(
        max_length=255, help_text="* for all.", widget=forms.TextInput(attrs={"autofocus": True})
    )
    principal = forms.CharField(max_length=255, help_text="With its type: User:alice.")
    host = forms.CharField(max_length=255, initial="*")
    operation = forms.ChoiceField(choices=[(w, w.replace("_", " ")) for w in OPERATIONS])
    permission = forms.ChoiceField(choices=[(w, w) for w in PERMISSIONS])
    why = why_field()


class ArchiveForm(WeirForm):
    topics = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True, "spellcheck": "false"}),
        help_text="Names, one per line or with commas. Each is archived from its earliest record on.",
    )
    why = why_field()

    def clean_topics(self) -> list[str]:
        return [t for t in self.cleaned_data["topics"].replace(",", " ").split() if t]


STARTS = (("newest", "newest"), ("oldest", "oldest"), ("offset", "from offset"), ("time", "from time"))


class MessagesForm(WeirForm):
    topic = forms.CharField(
        max_length=249, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    )
    partition = forms.IntegerField(min_value=0, initial=0, widget=forms.NumberInput(attrs={"class": "short"}))
    start = forms.ChoiceField(choices=STARTS, initial="newest", required=False)
    offset = forms.IntegerField(min_value=0, required=False, widget=forms.NumberInput(attrs={"class": "short"}))
    time = forms.DateTimeField(
        required=False, label="Time (UTC)",
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
        widget=forms.DateTimeInput(attrs={"placeholder": "2026-11-21 03:04:05", "size": 20}, format="%Y-%m-%d %H:%M:%S"),
        error_messages={"invalid": "Write it as 2026-11-21 03:04:05 or 2026-11-21; UTC."},
    )  # fmt: skip
    limit = forms.IntegerField(
        min_value=1,
        max_value=RECORDS_MAX,
        initial=50,
        required=False,
        widget=forms.NumberInput(attrs={"class": "short"}),
    )

    def asked(self) -> dict[str, Any]:
        """The arguments of `selectors.messages.read_messages` after topic and partition."""
        v = self.cleaned_data
        at: datetime | None = v["time"]
        return {
            "start": v["start"] or "newest",
            "offset": v["offset"],
            "timestamp_ms": None if at is None else int(at.replace(tzinfo=UTC).timestamp() * 1000),
            "limit": v["limit"] or 50,
        }


class WhyForm(WeirForm):
    """A costly act: nothing but its reason."""

    why = why_field(required=True)


class DestroyForm(WeirForm):
    """A destructive act: its object's name typed, and a reason."""

    confirm_name = forms.CharField(
        label="Name", widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    )
    why = why_field(required=True)

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = name
        self.fields["confirm_name"].widget.attrs["data-type-name"] = name

    def clean_confirm_name(self) -> str:
        typed: str = self.cleaned_data["confirm_name"]
        if typed != self.name:
            raise forms.ValidationError(f"Type {self.name} to confirm; {typed} is something else.")
        return typed


class ProposeForm(WeirForm):
    """To propose what was shown: its hash travels with the reason."""

    why = why_field(required=True)
    shown_hash = forms.CharField(widget=forms.HiddenInput, required=False)


class ProposeDestructionForm(DestroyForm, ProposeForm):
    """To propose a destructive act: the name typed, the reason, the hash of what was shown."""

    field_order = ("confirm_name", "why")


class DecideForm(WeirForm):
    """To approve or to reject; a no wants a reason, a yes may have one."""

    why = why_field()


class ThrottleForm(WeirForm):
    throttle_bytes_per_s = throttle_field(autofocus=True)
    adaptive = forms.BooleanField(
        required=False, label="Adaptive",
        help_text="Up to this, while producers' p99 stays at its baseline; from 1 MB/s on, and back within seconds.",
    )  # fmt: skip
    why = why_field()


class WindowForm(WeirForm):
    """When copies may begin: every day between two times, or up to a moment; all empty: always."""

    opens = forms.CharField(
        required=False, label="Opens, UTC", widget=forms.TextInput(attrs={"class": "short", "placeholder": "22:00"}),
        help_text="Every day at this time; empty for always.",
    )  # fmt: skip
    stop_by = forms.CharField(
        required=False, label="Stop by, UTC", widget=forms.TextInput(attrs={"class": "short", "placeholder": "05:30"}),
        help_text="No further copy begins from then on; those under way finish.",
    )  # fmt: skip
    days = forms.MultipleChoiceField(
        required=False, choices=[(str(i), d) for i, d in enumerate(DAYS)], widget=forms.CheckboxSelectMultiple,
        help_text="On which it opens; none for every day.",
    )  # fmt: skip

    def window(self) -> dict[str, Any] | None:
        """As `services.schedules` takes it."""
        v = self.cleaned_data
        opens, stop_by, days = v["opens"].strip(), v["stop_by"].strip(), [int(d) for d in v["days"]]
        if not (opens or stop_by or days):
            return None
        if not opens and not days:
            return {"stop_by": stop_by}
        return {"opens": opens, "stop_by": stop_by, **({"days": days} if days else {})}

    def refuse(self, error: Refused) -> None:
        super().refuse(Refused(error.reason, "stop_by") if error.field == "window" else error)


def compare_field() -> forms.BooleanField:
    return forms.BooleanField(
        required=False,
        initial=True,
        label="Compare copies",
        help_text="Old copies go only once all copies were compared and are equal; in mode tail always.",
    )


class ScheduleForm(WindowForm):
    why = why_field()


class MoveOfPlanForm(WindowForm):
    """A move by a plan: how much at a time, how fast, when."""

    parts_in_flight_max = cap_field(8, "At a time", "Partitions in all.")
    parts_per_broker_max = cap_field(
        4, "Per broker", "Copies that occupy one broker at a time, other moves' among them."
    )
    throttle_bytes_per_s = throttle_field()
    compare = compare_field()
    start = forms.BooleanField(
        required=False,
        initial=True,
        label="Start at once",
        help_text="Where it has no window; in one it begins by itself.",
    )
    why = why_field(required=True)

    field_order = (
        "parts_in_flight_max",
        "parts_per_broker_max",
        "throttle_bytes_per_s",
        "compare",
        "start",
        "opens",
        "stop_by",
        "days",
        "why",
    )


class DrainForm(WeirForm):
    throttle_bytes_per_s = throttle_field(autofocus=True)
    why = why_field(required=True)


class MoveForm(WeirForm):
    """The last step of a move: the scope that was reviewed, as JSON."""

    scope = forms.CharField(widget=forms.HiddenInput)
    parts_in_flight_max = cap_field(8, "At a time", "Partitions in all.")
    parts_per_broker_max = cap_field(
        4, "Per broker", "Copies that occupy one broker at a time, other moves' among them."
    )
    throttle_bytes_per_s = throttle_field()
    compare = compare_field()
    mode = forms.ChoiceField(
        choices=[
            ("copy", "copy: all old records travel"),
            ("tail", "tail: no old record travels"),
            ("tail_early", "tail, handed over early"),
        ],
        initial="copy", label="Mode", help_text="What each costs stands above.", required=False,
    )  # fmt: skip
    deadline_hours = forms.IntegerField(
        required=False, label="Deadline, hours", widget=forms.NumberInput(attrs={"class": "short"}),
        help_text="Mode tail: so long retention is waited for, then you are asked to cut; empty for ever. With one, a topic that keeps everything may go, too.",
    )  # fmt: skip
    why = why_field(required=True)

    def clean(self) -> dict[str, Any]:
        """One choice of the form is two words of a move: its mode, and when it hands over."""
        mode, _, handover = (self.cleaned_data.get("mode") or "copy").partition("_")
        return {**self.cleaned_data, "mode": mode, "handover": handover}

    def clean_scope(self) -> dict[str, Any]:
        try:
            scope = json.loads(self.cleaned_data["scope"])
        except ValueError:
            scope = None
        if not isinstance(scope, dict):
            raise forms.ValidationError("The reviewed move was lost on the way; review it again.")
        return scope
