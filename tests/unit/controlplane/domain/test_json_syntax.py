"""Sentences about text that is not JSON."""

from __future__ import annotations

import json

import pytest

from controlplane.domain.json_syntax import syntax_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a value is missing"),
        ("{'a': 1}", "is not in double quotation marks (line 1, column 2)."),
        ('{"a": 1 "b"}', "a comma or a closing bracket is missing (line 1, column 9)."),
        ('{"a" 1}', "a colon is missing"),
        ("{} x", "the value ends here, and other text follows"),
        ('"a\tb"', "a text contains a line break"),
        ('"\\x"', "write two backslashes"),
        ('"\\u12"', "four hexadecimal digits are missing"),
        ('"a', "the closing quotation mark of a text is missing"),
    ],
)
def test_each_problem_of_the_parser_has_a_text(text: str, problem: str) -> None:
    with pytest.raises(json.JSONDecodeError) as error:
        json.loads(text)
    assert problem in syntax_problem(error.value)
