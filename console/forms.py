"""Forms: parse the input of operators into the arguments of services.

A form checks syntax only. A service checks the meaning; its error is shown next to the field that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypedDict, Unpack

from django import forms
from django.forms.utils import pretty_name
from django.utils.translation import gettext as _

from console.acl_labels import operation_choices
from console.move_cells import MOVE_MODES
from console.texts import gettext_lazy
from console.vocabulary import translated
from controlplane.domain.config_units import parsed_all
from controlplane.domain.errors import MisfitValue
from controlplane.domain.produce import InputFormat
from controlplane.domain.scope import Scope, parse
from controlplane.domain.window import DAYS
from controlplane.services import Rejected
from controlplane.services.acls import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from controlplane.services.topic_problems import creation_problems
from weir_common.json_values import JsonObject

WHY_CHARS_MAX = 500
RACK = "rack:"
"""Prefix of a rack name in a field that also accepts a broker id."""
INPUT_FORMATS = [
    (f.value, label)
    for f, label in zip(
        InputFormat,
        (
            gettext_lazy("text"),
            gettext_lazy("JSON, checked"),
            "hex",
            "Base64",
            gettext_lazy("JSON, encoded as MessagePack"),
        ),
        strict=True,
    )
]
"""Formats of a typed key or value, with their labels."""


FormData = Mapping[str, object] | None
"""Posted values; None: the form is not bound."""


class FormOptions(TypedDict, total=False):
    """Arguments of a form in addition to its data."""

    initial: Mapping[str, object] | None
    prefix: str | None


class WeirForm(forms.Form):
    """A form that shows errors of services: next to the field, or above the form if the field is not visible."""

    use_required_attribute = False

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        initial = options.get("initial")
        super().__init__(data, initial=None if initial is None else dict(initial), prefix=options.get("prefix"))
        for name, field in self.fields.items():
            if field.label is None:
                field.label = translated(pretty_name(name))

    def reject(self, error: Rejected) -> None:
        field = error.field.partition(".")[0]
        visible = field in self.fields and not self[field].is_hidden
        reasons = error.sentences if isinstance(error, MisfitValue) else [error.reason]
        for reason in reasons:
            self.add_error(field if visible else None, translated(reason))

    def clean(self) -> dict[str, object]:
        return super().clean() or {}


def version_field() -> forms.IntegerField:
    """The version of the object that the form shows. The service rejects the change if another operator has changed the object since."""
    return forms.IntegerField(required=False, widget=forms.HiddenInput)


def comment_field(*, required: bool = False, autofocus: bool = False) -> forms.CharField:
    """The reason of an operation. `required`: for an operation that copies or deletes data."""
    return forms.CharField(
        label=gettext_lazy("Reason"),
        required=required,
        max_length=WHY_CHARS_MAX,
        help_text=gettext_lazy("Required. Recorded in the audit log.")
        if required
        else gettext_lazy("Recorded in the audit log."),
        widget=forms.TextInput(attrs={"autocomplete": "off", **({"autofocus": True} if autofocus else {})}),
        error_messages={"required": gettext_lazy("Give a reason; it is recorded in the audit log.")},
    )


def text_area(rows: int) -> forms.Textarea:
    """Input of a record: several lines in a font with equal widths."""
    return forms.Textarea(attrs={"rows": rows, "class": "mono", "spellcheck": "false", "autocomplete": "off"})


class MegabytesField(forms.FloatField):
    """Input in MB (10^6 bytes), value in bytes; empty is None."""

    def clean(self, value: object) -> int | None:
        mb = super().clean(value)
        return None if mb is None else round(mb * 1e6)


def throttle_field(*, autofocus: bool = False, required: bool = False) -> MegabytesField:
    """`required`: an empty field is no value, and 0 removes the throttle."""
    attrs: dict[str, object] = {"class": "short", "step": "any", **({"autofocus": True} if autofocus else {})}
    return MegabytesField(
        label=gettext_lazy("Throttle, MB/s"),
        required=required,
        widget=forms.NumberInput(attrs=attrs),
        help_text=gettext_lazy("Per broker. 0: no throttle. In-sync replicas are not throttled.")
        if required
        else gettext_lazy("Per broker; empty for no throttle. In-sync replicas are not throttled."),
    )


def cap_field(initial: int, label: str, help_text: str) -> forms.IntegerField:
    return forms.IntegerField(
        initial=initial, widget=forms.NumberInput(attrs={"class": "short"}), label=label, help_text=help_text
    )


class TopicForm(WeirForm):
    name = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("Letters, digits, '.', '_' and '-'; at most 249."),
    )
    partitions = forms.IntegerField(
        initial=3,
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy("Can be increased later, not decreased."),
    )
    replication_factor = forms.IntegerField(
        required=False,
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy("Empty: 3, or the number of live brokers if it is smaller."),
    )
    configs = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One name=value per line: retention.ms=7 d, segment.bytes=256 MiB. Other configs have their defaults."
        ),
    )
    comment = comment_field()

    def clean(self) -> dict[str, object]:
        """All problems together. `configs`: values by name, without units."""
        super().clean()
        values = self.cleaned_data
        lines, problems = config_lines(values.get("configs", ""))
        configs, wrong = parsed_all(lines)
        for problem in [*problems, *wrong]:
            self.add_error("configs", problem)
        known = {f: values.get(f) for f in ("name", "partitions", "replication_factor")}
        for field, problem in creation_problems(**known, configs=configs):
            self.add_error(field if field in self.fields else None, problem)
        return {**values, "configs": configs}


def config_lines(text: str) -> tuple[dict[str, str], list[str]]:
    """(text of each config by name, a problem for each line that is not name=value). Empty lines are skipped."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found[name.strip()] = value.strip()
        elif line.strip():
            problems.append(_("“{strip}” has no '='. Enter name=value.").format(strip=line.strip()))
    return found, problems


PRINCIPAL_TYPE = "User"


class PrincipalField(forms.CharField):
    """A principal, for example User:alice. A name without a type gets the type User, the only one that brokers assign."""

    def __init__(self, *, autofocus: bool = False) -> None:
        super().__init__(
            max_length=255,
            help_text=gettext_lazy("For example User:alice. A name without a type is a user."),
            widget=forms.TextInput(attrs={"autofocus": autofocus, "autocomplete": "off", "spellcheck": "false"}),
        )

    def clean(self, value: object) -> str:
        text = str(super().clean(value))
        return text if ":" in text or not text else f"{PRINCIPAL_TYPE}:{text}"


class AclForm(WeirForm):
    resource_type = forms.ChoiceField(choices=[(w, w.replace("_", " ")) for w in RESOURCE_TYPES])
    pattern_type = forms.ChoiceField(choices=[(w, w) for w in PATTERN_TYPES], initial="literal")
    resource_name = forms.CharField(
        max_length=255,
        help_text=gettext_lazy("* for all resources."),
        widget=forms.TextInput(attrs={"autofocus": True}),
    )
    principal = PrincipalField()
    host = forms.CharField(max_length=255, initial="*")
    operation = forms.ChoiceField(choices=operation_choices(OPERATIONS), initial="read")
    permission = forms.ChoiceField(choices=[(w, w) for w in PERMISSIONS])
    comment = comment_field()


class ArchiveForm(WeirForm):
    topics = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True, "spellcheck": "false"}),
        help_text=gettext_lazy("Names, separated by lines or commas. Each topic is archived from its earliest offset."),
    )
    comment = comment_field()

    def clean_topics(self) -> list[str]:
        return [t for t in self.cleaned_data["topics"].replace(",", " ").split() if t]


class ReasonForm(WeirForm):
    """An operation that needs only a reason."""

    comment = comment_field(required=True)


class EndDrainForm(ReasonForm):
    """Cancel or roll back a drain, and optionally uncordon its brokers."""

    uncordon = forms.BooleanField(required=False)

    def __init__(self, names: str, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["uncordon"].label = _("Uncordon {names} and restore leadership").format(names=names)


class DestroyForm(WeirForm):
    """A deletion: the name of the object as confirmation, and a reason."""

    confirm_name = forms.CharField(
        label=gettext_lazy("Name"), widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    )
    comment = comment_field(required=True)

    def __init__(self, name: str, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.name = name
        self.fields["confirm_name"].widget.attrs["data-type-name"] = name

    def clean_confirm_name(self) -> str:
        typed: str = self.cleaned_data["confirm_name"]
        if typed != self.name:
            raise forms.ValidationError(
                _("Type {name} to confirm; “{typed}” does not match.").format(name=self.name, typed=typed)
            )
        return typed


class ProposeForm(WeirForm):
    """An approval request: the reason, and the hash of the reviewed state."""

    comment = comment_field(required=True)
    shown_hash = forms.CharField(widget=forms.HiddenInput, required=False)


class ProposeDestructionForm(DestroyForm, ProposeForm):
    """An approval request for a deletion: confirmation, reason, hash of the reviewed state."""

    field_order = ("confirm_name", "comment")


class DecideForm(WeirForm):
    """Approve or reject. The service requires a reason to reject."""

    comment = comment_field()

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["comment"].label = _("Reason for the decision")


class ThrottleForm(WeirForm):
    throttle_bytes_per_s = throttle_field(autofocus=True)
    adaptive = forms.BooleanField(
        required=False,
        label=gettext_lazy("Adaptive"),
        help_text=gettext_lazy(
            "The throttle above is the upper limit. The rate starts at 1 MB/s, or at the limit if that is lower, and drops when the produce p99 exceeds its baseline."
        ),
    )
    comment = comment_field()


class WindowForm(WeirForm):
    """A maintenance window: when reassignments may start. Daily between two times, or until a time; empty: always."""

    opens = forms.CharField(
        required=False,
        label=gettext_lazy("Opens, UTC"),
        widget=forms.TextInput(attrs={"class": "short", "placeholder": "22:00"}),
        help_text=gettext_lazy("Daily start time; empty for always."),
    )
    stop_by = forms.CharField(
        required=False,
        label=gettext_lazy("Closes, UTC"),
        widget=forms.TextInput(attrs={"class": "short", "placeholder": "05:30"}),
        help_text=gettext_lazy("After this time no new reassignments start; active ones finish."),
    )
    days = forms.MultipleChoiceField(
        required=False,
        choices=[(str(i), gettext_lazy(d)) for i, d in enumerate(DAYS)],
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Days on which the window opens; none selected: every day."),
    )

    def window(self) -> JsonObject | None:
        """The window as JSON (`window.read`)."""
        v = self.cleaned_data
        opens, stop_by, days = v["opens"].strip(), v["stop_by"].strip(), [int(d) for d in v["days"]]
        if not (opens or stop_by or days):
            return None
        if not opens and not days:
            return {"stop_by": stop_by}
        return {"opens": opens, "stop_by": stop_by, **({"days": days} if days else {})}

    def reject(self, error: Rejected) -> None:
        super().reject(Rejected(error.reason, "stop_by") if error.field == "window" else error)


def compare_field() -> forms.BooleanField:
    return forms.BooleanField(
        required=False,
        initial=True,
        label=gettext_lazy("Verify replicas"),
        help_text=gettext_lazy(
            "Old replicas are deleted only after all replicas were compared and are equal. Always on for new data only."
        ),
    )


class ScheduleForm(WindowForm):
    comment = comment_field()


class MoveOfPlanForm(WindowForm):
    """A move from a plan: concurrency, throttle, maintenance window."""

    parts_in_flight_max = cap_field(8, gettext_lazy("Concurrent partitions"), gettext_lazy("In total."))
    parts_per_broker_max = cap_field(
        4,
        gettext_lazy("Concurrent per broker"),
        gettext_lazy("Replicas copied to or from one broker, including other moves."),
    )
    throttle_bytes_per_s = throttle_field()
    compare = compare_field()
    start = forms.BooleanField(
        required=False,
        initial=True,
        label=gettext_lazy("Start now"),
        help_text=gettext_lazy("Without a maintenance window. With one, the move starts automatically."),
    )
    comment = comment_field(required=True)

    field_order = (
        "parts_in_flight_max",
        "parts_per_broker_max",
        "throttle_bytes_per_s",
        "compare",
        "start",
        "opens",
        "stop_by",
        "days",
        "comment",
    )


class DrainForm(WeirForm):
    throttle_bytes_per_s = throttle_field(autofocus=True)
    comment = comment_field(required=True)


class MoveForm(WeirForm):
    """The last step of a new move. `scope` is the reviewed scope as JSON."""

    scope = forms.CharField(widget=forms.HiddenInput)
    parts_in_flight_max = cap_field(8, gettext_lazy("Concurrent partitions"), gettext_lazy("In total."))
    parts_per_broker_max = cap_field(
        4,
        gettext_lazy("Concurrent per broker"),
        gettext_lazy("Replicas copied to or from one broker, including other moves."),
    )
    throttle_bytes_per_s = throttle_field()
    compare = compare_field()
    mode = forms.ChoiceField(
        choices=[
            ("copy", MOVE_MODES["copy", ""][0]),
            ("tail", MOVE_MODES["tail", ""][0]),
            ("tail_early", MOVE_MODES["tail", "early"][0]),
        ],
        initial="copy",
        label=gettext_lazy("Mode"),
        help_text=gettext_lazy("See the costs above."),
        required=False,
    )
    deadline_hours = forms.IntegerField(
        required=False,
        label=gettext_lazy("Maximum wait, hours"),
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy(
            "For new data only: maximum wait for retention, after which you can delete the old records; empty for no limit. Required for a topic without retention."
        ),
    )
    comment = comment_field(required=True, autofocus=True)

    def clean(self) -> dict[str, object]:
        """Split the choice of the form into two fields of a move: mode and handover."""
        mode, __, handover = (self.cleaned_data.get("mode") or "copy").partition("_")
        return {**self.cleaned_data, "mode": mode, "handover": handover}

    def clean_scope(self) -> Scope:
        try:
            return parse(json.loads(self.cleaned_data["scope"]))
        except ValueError as e:
            raise forms.ValidationError(_("The form has no reviewed move. Review the move again.")) from e
