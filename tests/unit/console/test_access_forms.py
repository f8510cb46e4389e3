"""Forms of SCRAM users."""

from __future__ import annotations

from console.access_forms import PasswordForm, UserForm


def test_an_empty_password_is_a_generated_one_and_spaces_stay() -> None:
    empty = PasswordForm({"password": "", "comment": "x"})
    assert empty.is_valid() and empty.cleaned_data["password"] is None
    spaces = PasswordForm({"password": " spaces stay ", "comment": "x"})
    assert spaces.is_valid() and spaces.cleaned_data["password"] == " spaces stay "


def test_a_form_with_errors_does_not_contain_the_password() -> None:
    form = UserForm({"name": "", "password": "hush-hush-hush", "mechanisms": ["SCRAM-SHA-256"], "iterations": "5"})
    assert not form.is_valid() and set(form.errors) == {"name", "iterations"}
    assert "hush-hush-hush" not in form.as_div()
