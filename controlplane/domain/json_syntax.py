"""Errors of Python's JSON parser as sentences that pages translate. Pure."""

from __future__ import annotations

import json

from weir_common.phrases import sentence

PROBLEMS = {
    "Expecting value": sentence("a value is missing or is not written as JSON; text needs double quotation marks"),
    "Expecting ',' delimiter": sentence("a comma or a closing bracket is missing"),
    "Expecting ':' delimiter": sentence("a colon is missing after the name of a field"),
    "Expecting property name enclosed in double quotes": sentence(
        "the name of a field is missing or is not in double quotation marks"
    ),
    "Illegal trailing comma": sentence("no element or field follows the comma"),
    "Extra data": sentence("the value ends here, and other text follows"),
    "Invalid control character": sentence(
        "a text contains a line break, a tab or another control character; write it as an escape sequence"
    ),
    "Invalid \\escape": sentence("a text contains a backslash that starts no escape sequence; write two backslashes"),
    "Invalid \\uXXXX escape": sentence("four hexadecimal digits are missing after \\u"),
    "Unterminated string": sentence("the closing quotation mark of a text is missing"),
}
"""By the beginning of the parser's message."""


def syntax_problem(error: json.JSONDecodeError) -> str:
    """The problem and its place, after "Not JSON: ". A message that this module does not know is kept."""
    problem = next((text for start, text in PROBLEMS.items() if error.msg.startswith(start)), error.msg)
    return sentence(
        "{problem} (line {lineno}, column {colno}).", problem=problem, lineno=error.lineno, colno=error.colno
    )
