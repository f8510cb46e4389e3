"""Forms of routes. The bindings are rows, or JSON as in a REST request."""

from __future__ import annotations

import json
from typing import Any, Unpack

from django import forms
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, WeirForm, comment_field
from console.route_bindings import BindingRowsField, Row, edit_rows, input_of
from console.texts import gettext_lazy
from controlplane.domain.route_bindings import path_in_binding
from controlplane.selectors.routes import PRINCIPAL_LENGTH_MAX, ROUTE_STARTS
from controlplane.services import Rejected

EXAMPLE = '[{"target": "paid", "match": {"kind": "key", "value": "paid"}}]'
ROWS_HELP = gettext_lazy(
    "The words of a key are separated by dots. In a pattern, * is one word and # is any number of words. Headers: one name=value per line, or a name alone "
    "for any value."
)
BINDINGS_HELP = gettext_lazy(
    "A list. match.kind: key, pattern (value with * for one word and # for any words), headers_all or headers_any "
    '(headers: a list such as [{"name": "kind", "value": "paid"}]), all. Optional: sample_percent, sample_by, set_headers, remove_headers, key_from_header, drop_key.'
)


class RouteChangeForm(WeirForm):
    """The fields of a route that can be changed. `as_json`: the bindings are JSON."""

    bindings = forms.CharField(
        initial=EXAMPLE,
        max_length=1_000_000,
        widget=forms.Textarea(attrs={"rows": 10, "class": "mono", "spellcheck": "false"}),
        help_text=BINDINGS_HELP,
    )
    enabled = forms.BooleanField(
        required=False, initial=True, help_text=gettext_lazy("A disabled route keeps its position.")
    )
    owner = forms.CharField(
        required=False, max_length=200, help_text=gettext_lazy("Contact for questions about this route.")
    )
    description = forms.CharField(required=False, max_length=1_000)
    principal = forms.CharField(
        required=False,
        max_length=PRINCIPAL_LENGTH_MAX,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Such as User:alice: its ACLs and quotas apply to the route. Empty: the brokers route with their own identity."
        ),
    )
    comment = comment_field()
    generation = forms.IntegerField(required=False, widget=forms.HiddenInput)
    """The generation of the route whose values the form shows; a new route has none."""

    def __init__(self, data: FormData = None, *, as_json: bool = False, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        if not as_json:
            self.fields["bindings"] = BindingRowsField(
                label=self.fields["bindings"].label, initial=self.initial.get("bindings"), help_text=ROWS_HELP
            )

    def edit_rows(self, edit: str) -> None:
        """Show what was typed, with the rows after a button (`route_bindings.edit_rows`), instead of checking it. Call it before the form is validated."""
        field = self.fields["bindings"]
        assert isinstance(field, BindingRowsField)
        rows: list[Row] = self["bindings"].data or []
        typed = {name: self[name].data for name in self.fields if name != "bindings"}
        self.is_bound = False
        self.initial = typed
        for other in self.fields.values():
            other.widget.attrs.pop("autofocus", None)
        self.initial["bindings"], field.widget.focus = edit_rows(rows, edit)

    def reject(self, error: Rejected) -> None:
        """Show the reason for a rejected binding in the row of the binding."""
        name, _dot, rest = error.field.partition(".")
        number = rest.partition(".")[0]
        if name == "bindings" and number.isdigit() and isinstance(self.fields["bindings"], BindingRowsField):
            self.fields["bindings"].widget.problems = {
                int(number): {input_of(path_in_binding(error.field)): error.reason}
            }
            self.add_error("bindings", _("Correct the bindings."))
        else:
            super().reject(error)

    def clean_bindings(self) -> object:
        if isinstance(self.fields["bindings"], BindingRowsField):
            return self.cleaned_data["bindings"]
        try:
            return json.loads(self.cleaned_data["bindings"])
        except ValueError as e:
            raise forms.ValidationError(_("Not valid JSON: {e}.").format(e=e)) from None

    def definition(self) -> dict[str, Any]:
        return {n: v for n, v in self.cleaned_data.items() if n not in ("name", "comment", "generation")}


class RouteForm(RouteChangeForm):
    """A new route."""

    name = forms.CharField(
        max_length=100, widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"})
    )
    source = forms.CharField(
        max_length=249, label=gettext_lazy("Source topic"), help_text=gettext_lazy("It cannot be changed later.")
    )
    start = forms.ChoiceField(
        choices=ROUTE_STARTS,
        help_text=gettext_lazy("latest: new records only. earliest: all records that the topic has."),
    )
    field_order = ["name", "source", "start"]


class RouteTestForm(WeirForm):
    """A record whose bindings are shown. One header per line, as name=value."""

    key = forms.CharField(
        required=False, strip=False, max_length=1_000, help_text=gettext_lazy("Empty: a record without a key.")
    )
    headers = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"}),
        help_text=gettext_lazy("One name=value per line."),
    )

    def clean_headers(self) -> list[tuple[str, str]]:
        lines = [line for line in self.cleaned_data["headers"].splitlines() if line.strip()]
        if wrong := next((line for line in lines if "=" not in line), None):
            raise forms.ValidationError(_("“{wrong}” has no '='. Enter name=value.").format(wrong=wrong))
        return [(name, value) for name, _, value in (line.partition("=") for line in lines)]
