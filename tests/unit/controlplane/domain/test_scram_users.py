"""Rules for names and passwords of SCRAM users."""

from __future__ import annotations

import pytest

from controlplane.domain import scram_users as rules


@pytest.mark.parametrize("name", ["ann", "ann/ops", "CN=ann, O=x", "a" * rules.NAME_CHARS_MAX, "安"])
def test_names_that_kafka_clients_can_send_are_accepted(name: str) -> None:
    assert rules.name_problem(name) is None
    assert rules.credential_key("SCRAM-SHA-256", name).partition(":")[2] == name


@pytest.mark.parametrize("name", ["", " ann", "ann\t", "a\x00b", "a" * (rules.NAME_CHARS_MAX + 1)])
def test_other_names_are_not(name: str) -> None:
    assert rules.name_problem(name) is not None


@pytest.mark.parametrize("password", ["short", "x" * (rules.PASSWORD_CHARS_MAX + 1), "secret\x01secret"])
def test_the_problem_of_a_password_does_not_contain_it(password: str) -> None:
    problem = rules.password_problem(password)
    assert problem is not None and password not in problem


@pytest.mark.parametrize("password", ["x" * rules.PASSWORD_CHARS_MIN, " spaces stay ", "x" * rules.PASSWORD_CHARS_MAX])
def test_other_passwords_have_none(password: str) -> None:
    assert rules.password_problem(password) is None
