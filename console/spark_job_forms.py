"""The form of a Spark job, made from the parameters of its kind. Does not contain: their check (`weir_common.spark_jobs`, by the service)."""

from __future__ import annotations

from typing import Any, Unpack

from django import forms
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field, version_field
from console.texts import gettext_lazy
from console.vocabulary import translated
from controlplane.services import Rejected
from weir_common.spark_jobs import JobKind, Parameter, ParameterType


class SparkJobForm(WeirForm):
    """Name, the parameters of `kind`, and the schedule of kinds that end without a request to stop."""

    name = forms.CharField(
        max_length=100,
        help_text=gettext_lazy("A name that no other job has."),
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
    )

    def __init__(self, kind: JobKind, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.kind = kind
        for parameter in kind.parameters:
            self.fields[parameter.name] = _field(parameter)
        if not kind.is_continuous:
            self.fields["schedule"] = forms.CharField(
                label=_("Schedule"),
                required=False,
                max_length=100,
                help_text=_(
                    "Cron expression in UTC: 0 3 * * * starts the job each day at 03:00. Leave empty to start it only manually."
                ),
            )
        self.fields["comment"] = comment_field()

    @property
    def parameters(self) -> dict[str, object]:
        """The cleaned parameters. An empty number is the default."""
        given = {p.name: self.cleaned_data[p.name] for p in self.kind.parameters}
        return {name: value for name, value in given.items() if value is not None}

    def reject(self, error: Rejected) -> None:
        super().reject(Rejected(error.reason, error.field.removeprefix("parameters.")))


def _field(parameter: Parameter) -> forms.Field:
    shared: dict[str, Any] = {
        "label": translated(parameter.label),
        "help_text": translated(parameter.help),
        "initial": parameter.default,
    }
    if parameter.type is ParameterType.BOOLEAN:
        return forms.BooleanField(required=False, **shared)
    if parameter.type is ParameterType.INTEGER:
        label = (
            _("{label}, {unit}").format(label=translated(parameter.label), unit=translated(parameter.unit))
            if parameter.unit
            else translated(parameter.label)
        )
        number = forms.NumberInput(attrs={"class": "short"})
        return forms.IntegerField(required=False, widget=number, **{**shared, "label": label})
    if parameter.type is ParameterType.CHOICE:
        return forms.ChoiceField(choices=[(c, c) for c in parameter.choices], **shared)
    if parameter.type in (ParameterType.TOPICS, ParameterType.TABLES):
        names = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
        help_text = _("{help} Write one per line, or separate them by commas.").format(help=translated(parameter.help))
        return forms.CharField(required=parameter.default is None, widget=names, **{**shared, "help_text": help_text})
    return forms.CharField(
        required=parameter.default is None, widget=forms.TextInput(attrs={"autocomplete": "off"}), **shared
    )


class SparkScheduleForm(WeirForm):
    schedule = forms.CharField(
        required=False,
        max_length=100,
        help_text=gettext_lazy(
            "Cron expression in UTC: 0 3 * * * starts the job each day at 03:00. Leave empty for no schedule."
        ),
    )
    comment = comment_field()
    version = version_field()


class LakeQueryForm(WeirForm):
    sql = forms.CharField(
        label=gettext_lazy("Query"),
        widget=forms.Textarea(attrs={"rows": 5, "class": "mono", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One SELECT statement in the SQL of DuckDB. The result has at most 1,000 rows; the query may take 30 s and 512 MB. The audit log records the query."
        ),
    )
