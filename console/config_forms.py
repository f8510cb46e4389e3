"""Forms of dynamic broker settings and of configs of groups."""

from __future__ import annotations

from typing import Unpack

from django import forms
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field
from console.texts import gettext_lazy

BROKER_SCOPE, CLUSTER_SCOPE = "broker", "cluster"


class ConfigForm(WeirForm):
    """One config with its new value. `remove` deletes the value; `REMOVED` is the error if a value is given, too."""

    REMOVED: str

    name = forms.CharField(max_length=200, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))
    value = forms.CharField(
        required=False,
        max_length=8192,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    remove = forms.BooleanField(required=False)
    comment = comment_field(required=True)

    def clean(self) -> dict[str, object]:
        given = super().clean()
        if given.get("remove") and given.get("value"):
            self.add_error("value", self.REMOVED)
        return given

    def configs(self) -> dict[str, str | None]:
        return {self.cleaned_data["name"]: None if self.cleaned_data["remove"] else self.cleaned_data["value"]}


class BrokerConfigForm(ConfigForm):
    """One dynamic setting, for one broker or for all."""

    REMOVED = gettext_lazy("Leave the value empty to remove the dynamic value.")

    scope = forms.ChoiceField(help_text=gettext_lazy("A value of one broker overrides the cluster-wide value."))
    remove = forms.BooleanField(required=False, label=gettext_lazy("Remove the dynamic value"))
    field_order = ("name", "scope", "value", "remove", "comment")

    def __init__(self, broker_id: int, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.fields["scope"].choices = [  # type: ignore[attr-defined]
            (BROKER_SCOPE, _("Broker {broker_id}").format(broker_id=broker_id)),
            (CLUSTER_SCOPE, _("All brokers (cluster-wide)")),
        ]


class GroupConfigForm(ConfigForm):
    """One config of a group."""

    REMOVED = gettext_lazy("Leave the value empty to remove the value of the group.")

    remove = forms.BooleanField(required=False, label=gettext_lazy("Remove the value of the group"))
    field_order = ("name", "value", "remove", "comment")
