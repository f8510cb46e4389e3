"""Rules for SCRAM users: names, passwords, mechanisms, iterations. Values only."""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.security import scram

MECHANISMS: tuple[str, ...] = tuple(scram.ALGORITHMS)
ITERATIONS_MIN, ITERATIONS_MAX = scram.ITERATIONS_MIN, scram.ITERATIONS_MAX
NAME_CHARS_MAX = 200
"""Maximum length of a name. A change row has space for the name with its mechanism."""
PASSWORD_CHARS_MIN, PASSWORD_CHARS_MAX = 8, 256


def principal_of(name: str) -> str:
    """The principal of a connection that authenticated as this user."""
    return f"User:{name}"


def credential_key(mechanism: str, name: str) -> str:
    """The key of a credential in the metadata log."""
    return f"{mechanism}:{name}"


def name_problem(name: str) -> str | None:
    if not name:
        return "Give a user name."
    if len(name) > NAME_CHARS_MAX:
        return f"The user name has {len(name)} characters; at most {NAME_CHARS_MAX} are allowed."
    if name != name.strip() or not name.isprintable():
        return "The user name has a space at an end, or a control character."
    return None


def password_problem(password: str) -> str | None:
    """The result does not contain the password."""
    if len(password) < PASSWORD_CHARS_MIN:
        return f"The password has fewer than {PASSWORD_CHARS_MIN} characters."
    if len(password) > PASSWORD_CHARS_MAX:
        return f"The password has more than {PASSWORD_CHARS_MAX} characters."
    if not password.isprintable():
        return "The password has a control character."
    return None


def mechanisms_problem(mechanisms: Sequence[str]) -> str | None:
    if not mechanisms or not set(mechanisms) <= set(MECHANISMS):
        return f"Choose one or more SCRAM mechanisms: {', '.join(MECHANISMS)}."
    return None


def iterations_problem(iterations: int) -> str | None:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        return f"Iterations must be between {ITERATIONS_MIN} and {ITERATIONS_MAX}."
    return None
