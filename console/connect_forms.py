"""Forms of connectors. A config of a plugin is a field with the plugin's documentation; configs that the plugin does not define are lines of one field.

Invariants: an empty field is a config that is not set. Values of secrets are hidden texts, which the service replaces. Does not contain: the check
of a config (`controlplane.services.connect`, by the workers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field, config_lines, text_area
from console.texts import gettext_lazy
from controlplane.domain.connect import ConfigImportance, ConfigType
from controlplane.domain.errors import MisfitValue
from controlplane.services import Rejected
from controlplane.services.connect import CLASS, NAME_CHARS_MAX, ConnectorConfigField

PREFIX = "c:"
"""Prefix of the field name of a config. Without it, a config `comment` and the field for the operator's reason would have the same name."""

HELP_CHARS_MAX = 600
RECOMMENDED_MAX = 12
FIXED = ("name", CLASS)
"""Configs that have their own place in the form."""


class ConnectorForm(WeirForm):
    """`configs`: those that the plugin defines. `config`: the values of the form before it is sent, else those that were sent. `is_new`: the name can be
    chosen."""

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        help_text=gettext_lazy("Unique in its Connect cluster."),
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
    )
    extra = forms.CharField(
        required=False,
        label=gettext_lazy("Other configs"),
        widget=text_area(4),
        help_text=gettext_lazy("One name=value per line, for example of transforms and of overridden client configs."),
    )
    comment = comment_field(required=True)
    version = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        configs: Iterable[ConnectorConfigField],
        config: Mapping[str, str],
        data: FormData = None,
        *,
        is_new: bool,
        **options: Unpack[FormOptions],
    ) -> None:
        super().__init__(data, **options)
        if not is_new:
            del self.fields["name"]
        known = {c.name: c for c in configs if c.name not in FIXED}
        self.main: list[str] = []
        self.more: list[str] = []
        others = {n: v for n, v in config.items() if n not in known and n not in FIXED}
        for c in known.values():
            is_main = (
                c.is_required or c.importance == ConfigImportance.HIGH or bool(config.get(c.name)) or bool(c.errors)
            )
            (self.main if is_main else self.more).append(PREFIX + c.name)
            self.fields[PREFIX + c.name] = _field(c, config.get(c.name, ""))
        for name in [n for n, v in others.items() if "\n" in v]:
            self.main.append(PREFIX + name)
            area = forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"})
            self.fields[PREFIX + name] = forms.CharField(
                label=name, required=False, strip=False, widget=area, initial=others.pop(name)
            )
        self.fields["extra"].initial = "\n".join(f"{n}={v}" for n, v in sorted(others.items()))

    @property
    def main_fields(self) -> list[BoundField]:
        """The fields in order: name, the configs that are required, important, set or wrong, the configs that the plugin does not define, and the
        reason."""
        return [self[n] for n in [*(["name"] if "name" in self.fields else []), *self.main, "extra", "comment"]]

    @property
    def more_fields(self) -> list[BoundField]:
        return [self[n] for n in self.more]

    def reject(self, error: Rejected) -> None:
        if isinstance(error, MisfitValue):
            for path, text in error.faults:
                self.add_config_error(path.removeprefix("$."), text)
        else:
            super().reject(error)

    def add_config_error(self, name: str, text: str) -> None:
        """Add the error to the field of the config, or with the config's name to the form if the config has no field."""
        field = name if name == "name" else PREFIX + name
        if field in self.fields:
            self.add_error(field, text)
        else:
            self.add_error("extra", f"{name}: {text}")


def given_config(data: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(config of a sent form without its name, problems of its lines)."""
    config, problems = config_lines(data.get("extra", ""))
    config |= {n.removeprefix(PREFIX): v.replace("\r\n", "\n") for n, v in data.items() if n.startswith(PREFIX)}
    return {n: v for n, v in config.items() if v and n not in FIXED}, problems


def _field(config: ConnectorConfigField, value: str) -> forms.Field:
    help_text = config.documentation[:HELP_CHARS_MAX]
    if config.recommended and config.type != ConfigType.BOOLEAN:
        values = _(", ").join(config.recommended[:RECOMMENDED_MAX])
        help_text = _("{help} Values: {values}.").format(help=help_text, values=values)
    shared: dict[str, Any] = {"label": config.name, "required": False, "help_text": help_text, "initial": value}
    if config.type == ConfigType.BOOLEAN and value in ("", "true", "false"):
        unset = _("default ({value})").format(value=config.default) if config.default else "–"
        return forms.ChoiceField(choices=[("", unset), ("true", "true"), ("false", "false")], **shared)
    attributes = {"autocomplete": "off", "spellcheck": "false", "placeholder": config.default or ""}
    widget: forms.Widget = forms.TextInput(attrs=attributes)
    if config.type == ConfigType.PASSWORD:
        widget = forms.PasswordInput(attrs={**attributes, "autocomplete": "new-password"}, render_value=True)
    elif "\n" in value:
        widget = forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"})
    return forms.CharField(strip=False, widget=widget, **shared)


class RestartConnectorForm(WeirForm):
    include_tasks = forms.BooleanField(
        required=False,
        initial=True,
        label=gettext_lazy("Restart tasks"),
        help_text=gettext_lazy("Otherwise only the connector itself is restarted."),
    )
    only_failed = forms.BooleanField(
        required=False,
        initial=True,
        label=gettext_lazy("Failed ones only"),
        help_text=gettext_lazy("A connector and tasks that run are not interrupted."),
    )
    comment = comment_field()
