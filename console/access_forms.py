"""Forms of SCRAM users, API tokens and ACL templates. No page contains a password, except the page that creates a user or a password: it shows a generated
password once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from django import forms
from django.utils.translation import gettext as _

from console.forms import FormData, FormOptions, PrincipalField, WeirForm, comment_field
from console.texts import gettext_lazy
from console.vocabulary import translated, word_text
from controlplane.domain import scram_users as rules
from controlplane.domain.access import AclPattern
from controlplane.domain.acl_templates import TEMPLATES, AclTemplate, TemplateField
from controlplane.domain.token_scopes import TokenScope
from controlplane.services.api_tokens import NAME_CHARS_MAX


class PasswordForm(WeirForm):
    """A password, typed or generated."""

    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "autofocus": True}),
        help_text=gettext_lazy(
            "At least {password_chars_min} characters. Empty: a password is generated and shown once.",
            password_chars_min=rules.PASSWORD_CHARS_MIN,
        ),
    )
    comment = comment_field(required=True)

    def clean_password(self) -> str | None:
        """Return the password. None: the console generates one."""
        password: str = self.cleaned_data["password"]
        if not password:
            return None
        if (problem := rules.password_problem(password)) is not None:
            raise forms.ValidationError(problem)
        return password


class UserForm(PasswordForm):
    name = forms.CharField(
        max_length=rules.NAME_CHARS_MAX,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("Its principal in ACLs is User:name."),
    )
    mechanisms = forms.MultipleChoiceField(
        choices=[(m, m) for m in rules.MECHANISMS],
        initial=list(rules.MECHANISMS),
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Clients use one of them. PLAIN accepts the same password."),
    )
    iterations = forms.IntegerField(
        initial=rules.ITERATIONS_MIN,
        min_value=rules.ITERATIONS_MIN,
        max_value=rules.ITERATIONS_MAX,
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy("Cost of one password guess, and of one login for the client."),
    )
    comment = comment_field()

    field_order = ("name", "password", "mechanisms", "iterations", "comment")

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        del self.fields["password"].widget.attrs["autofocus"]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if (problem := rules.name_problem(name)) is not None:
            raise forms.ValidationError(problem)
        return name


SCOPE_LABELS = {
    TokenScope.READ: gettext_lazy("read: no changes"),
    TokenScope.OPERATE: gettext_lazy("operate: changes that an operator may make"),
    TokenScope.ADMIN: gettext_lazy("admin: everything that you may do"),
}


class TokenForm(WeirForm):
    """A new API token. Scopes above `limit` are not offered."""

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("The program that uses the token, for example deploy-pipeline."),
    )
    scope = forms.ChoiceField()
    days = forms.IntegerField(
        label=gettext_lazy("Valid for, days"),
        required=False,
        initial=90,
        min_value=1,
        max_value=3650,
        widget=forms.NumberInput(attrs={"class": "short"}),
        help_text=gettext_lazy("Empty: no expiry."),
    )
    comment = comment_field()

    def __init__(self, limit: TokenScope, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        scopes: Any = self.fields["scope"]
        scopes.choices = [(scope.value, label) for scope, label in SCOPE_LABELS.items() if limit.permits(scope)]


class TemplateArguments(TypedDict):
    """Arguments of `services.acl_templates`."""

    template: AclTemplate
    values: Mapping[TemplateField, str]
    principal: str
    host: str
    pattern_type: AclPattern


class AclTemplateForm(WeirForm):
    """A template, its values, and for whom. Which values a template needs is checked by the service."""

    template = forms.ChoiceField(
        choices=[(t.value, gettext_lazy(word_text(t))) for t in AclTemplate], initial=AclTemplate.CONSUMER.value
    )
    principal = PrincipalField(autofocus=True)
    topic = forms.CharField(max_length=249, required=False)
    group = forms.CharField(max_length=255, required=False)
    transactional_id = forms.CharField(max_length=255, required=False, label=gettext_lazy("Transactional id"))
    application_id = forms.CharField(max_length=255, required=False, label=gettext_lazy("Application id"))
    name_prefix = forms.CharField(max_length=249, required=False, label=gettext_lazy("Prefix of names"))
    pattern_type = forms.ChoiceField(
        choices=[(p.value, p.value) for p in AclPattern],
        initial=AclPattern.LITERAL.value,
        help_text=gettext_lazy("Prefixed: the names above are beginnings of names."),
    )
    host = forms.CharField(max_length=255, initial="*")
    comment = comment_field()

    def __init__(self, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        for field in TemplateField:
            users = [info.template for info in TEMPLATES.values() if field in info.fields]
            names = _(", ").join(translated(word_text(name)) for name in users)
            self.fields[field.value].help_text = _("Templates: {names}.").format(names=names)
            self.fields[field.value].widget.attrs["data-when"] = f"template={'|'.join(users)}"

    def arguments(self) -> TemplateArguments:
        """The arguments of the services, after validation."""
        v = self.cleaned_data
        return {
            "template": AclTemplate(v["template"]),
            "values": {field: v[field.value] for field in TemplateField},
            "principal": v["principal"],
            "host": v["host"],
            "pattern_type": AclPattern(v["pattern_type"]),
        }

    def body(self) -> dict[str, str]:
        """The body of the REST call with the current values of the fields."""
        template = AclTemplate(self["template"].value()) if self["template"].value() in set(AclTemplate) else None
        needed = [f.value for f in TEMPLATES[template].fields] if template else []
        names = ["principal", *needed, "pattern_type", "host"]
        return {name: self[name].value() or name.upper() for name in names}
