"""The forms of bulk operations: configs of topics with units, limits of quotas, throttles of moves. All errors together."""

from __future__ import annotations

import json
from typing import Unpack

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field, config_lines, throttle_field
from console.quota_forms import limit_field
from console.texts import gettext_lazy
from controlplane.domain.config_units import parsed_all
from controlplane.domain.quota import UNITS
from controlplane.services.bulk_topics import BulkChange, BulkOperation, problems_of

LABELS = {
    BulkOperation.CONFIGS: gettext_lazy("Set or remove config overrides"),
    BulkOperation.DELETE: gettext_lazy("Delete the topics"),
}


def previewed_keys(request: HttpRequest) -> list[str]:
    """The rows of the preview that was shown, which a later comparison with the filter cannot extend."""
    try:
        given = json.loads(request.POST.get("keys", ""))
    except ValueError:
        return []
    return [k for k in given if isinstance(k, str)] if isinstance(given, list) else []


class BulkTopicForm(WeirForm):
    operation = forms.ChoiceField(choices=[(o.value, LABELS[o]) for o in BulkOperation])
    configs = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One name=value per line: retention.ms=7 d, segment.bytes=256 MiB. Without a value the override is removed."
        ),
    )
    comment = comment_field(required=True)

    def clean(self) -> dict[str, object]:
        """`change`: the BulkChange."""
        values = self.cleaned_data
        if "operation" not in values:
            return values
        operation = BulkOperation(values["operation"])
        if operation is BulkOperation.DELETE:
            return {**values, "change": BulkChange(operation)}
        lines, problems = config_lines(values.get("configs", ""))
        configs, wrong = parsed_all({k: v for k, v in lines.items() if v})
        change = BulkChange(operation, configs, tuple(k for k, v in lines.items() if not v))
        for problem in [*problems, *wrong, *([] if problems or wrong else problems_of(change))]:
            self.add_error("configs", problem)
        return {**values, "change": change}


class BulkApplyForm(BulkTopicForm):
    """The second step: the previewed topics with their generations, as JSON, and for a deletion their number as confirmation."""

    topics = forms.CharField(widget=forms.HiddenInput)
    confirm_count = forms.CharField(
        required=False,
        label=gettext_lazy("Number of topics"),
        widget=forms.TextInput(attrs={"class": "short", "autocomplete": "off"}),
    )

    def clean_topics(self) -> dict[str, int]:
        try:
            found = json.loads(self.cleaned_data["topics"])
            return {str(name): int(generation) for name, generation in found.items()}
        except (ValueError, AttributeError, TypeError) as e:
            raise forms.ValidationError(_("The form has no previewed topics. Preview the operation again.")) from e

    def clean(self) -> dict[str, object]:
        values, given = super().clean(), self.cleaned_data
        expected, typed = len(given.get("topics", {})), given.get("confirm_count", "").strip().replace(",", "")
        if given.get("operation") == BulkOperation.DELETE and typed != str(expected):
            self.add_error(
                "confirm_count",
                _("Type {expected} to confirm the deletion of {expected} topics.").format(expected=expected),
            )
        return values


class BulkLimitForm(WeirForm):
    """`value`: the argument of the service. `unchanged`: the value of a preview that has no input yet."""

    unchanged: object = None

    def value(self) -> object:
        raise NotImplementedError

    def body(self) -> dict[str, object]:
        """The fields of the equivalent request."""
        raise NotImplementedError


class BulkQuotaLimitsForm(BulkLimitForm):
    """An empty field leaves the limit as it is, 0 removes it."""

    unchanged: object = {}
    comment = comment_field(required=True)

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        for quota in UNITS:
            field = limit_field(quota)
            field.help_text = _("Per broker. Empty: unchanged. 0: no limit.")
            self.fields[quota] = field
        self.order_fields([*UNITS, "comment"])

    def clean(self) -> dict[str, object]:
        values, given = super().clean(), self.cleaned_data
        if not self.errors and all(given.get(quota) is None for quota in UNITS):
            self.add_error(None, _("Give at least one limit."))
        for quota in UNITS:
            if (given.get(quota) or 0) < 0:
                self.add_error(quota, _("A limit cannot be negative."))
        return values

    def value(self) -> dict[str, float | None]:
        given = self.cleaned_data
        return {quota: given[quota] or None for quota in UNITS if given[quota] is not None}

    def body(self) -> dict[str, object]:
        return {"limits": self.value()}


class BulkThrottleForm(BulkLimitForm):
    """The throttle is required, because an empty field of the other bulk form means no change. 0 removes it."""

    throttle_bytes_per_s = throttle_field(autofocus=True, required=True)
    comment = comment_field(required=True)

    def value(self) -> int | None:
        rate: int = self.cleaned_data["throttle_bytes_per_s"]
        return rate or None

    def body(self) -> dict[str, object]:
        return {"throttle_bytes_per_s": self.value()}
