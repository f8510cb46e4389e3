"""Parameters of Spark jobs: defaults, limits, and the errors that name the parameter."""

from __future__ import annotations

from typing import Any

import pytest

from weir_common.spark_jobs import KINDS, JobKind, Parameter, ParameterError, ParameterType, parse

KIND = JobKind(
    "k",
    "K",
    "",
    (
        Parameter("topics", ParameterType.TOPICS, "Topics", ""),
        Parameter("n", ParameterType.INTEGER, "N", "", 3, minimum=1, maximum=9),
        Parameter("c", ParameterType.CHOICE, "C", "", "a", choices=("a", "b")),
        Parameter("b", ParameterType.BOOLEAN, "B", "", False),
        Parameter("at", ParameterType.INSTANT, "At", "", ""),
    ),
)


def test_absent_parameters_have_their_defaults() -> None:
    assert parse(KIND, {"topics": "b a, a"}) == {"topics": ["a", "b"], "n": 3, "c": "a", "b": False, "at": ""}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "topics"),
        ({"topics": []}, "topics"),
        ({"topics": [1]}, "topics"),
        ({"topics": [f"t{n}" for n in range(101)]}, "topics"),
        ({"topics": ["t"], "n": 0}, "n"),
        ({"topics": ["t"], "n": True}, "n"),
        ({"topics": ["t"], "n": "3"}, "n"),
        ({"topics": ["t"], "c": "z"}, "c"),
        ({"topics": ["t"], "b": 1}, "b"),
        ({"topics": ["t"], "at": "2026-01-01"}, "at"),
        ({"topics": ["t"], "at": "today"}, "at"),
        ({"topics": ["t"], "x": 1}, "x"),
    ],
)
def test_an_error_names_the_parameter(values: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as error:
        parse(KIND, values)
    assert error.value.name == name


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_defaults_are_allowed_values(kind: JobKind) -> None:
    required = {
        p.name: ["x"] if p.type in (ParameterType.TOPICS, ParameterType.TABLES) else "x"
        for p in kind.parameters
        if p.default is None
    }
    assert set(parse(kind, required)) == {p.name for p in kind.parameters}
