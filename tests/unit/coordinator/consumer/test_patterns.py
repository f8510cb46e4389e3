"""Patterns over topic names: the result of RE2 where Python's `re` agrees, rejections with a message, and no pattern that blocks the event loop."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokerd.coordinator.consumer.patterns import ALPHABET, Pattern, PatternError

atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "[a-c.]",
        r"\d",
        r"\w",
        r"\D",
        r"\.",
        "-",
        "_",
        "[]a]",
        "[^-x]",
        r"[\d-]",
        "A",
        "1",
        r"\x61",
        "[a-]",
        " ",
        "[/:]",
        r"\s",
        r"\S",
        r"\t",
        "[ -:]",
        "(?s:.)",
    ]
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda x: f"(?:{'|'.join(x)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,1}", "{2,}"])).map(
            lambda x: f"({x[0]}){x[1]}"
        ),
        inner.map(lambda x: f"(?i:{x})"),
    ),
    max_leaves=6,
)
names = st.lists(st.text("abcAB1.-_ /:\t\n\xe9", max_size=8), min_size=1, max_size=8)


@settings(max_examples=400, deadline=None)
@given(patterns, names, st.sampled_from(["", "^"]), st.sampled_from(["", "$"]))
@example(r"([^-x])*?", [""], "", "")
def test_a_pattern_matches_as_in_pythons_re(text: str, wanted: list[str], begin: str, end: str) -> None:
    text = f"{begin}(?:{text}){end}"
    assert Pattern(text).among(wanted) == {n for n in wanted if re.fullmatch(text, n, re.ASCII)}


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("orders|payments", {"orders", "payments"}),
        ("orders.*", {"orders", "orders.eu", "orders-2"}),
        ("^orders$", {"orders"}),
        (r"\Aorders\z", {"orders"}),
        ("^orders|^pay.*$", {"orders", "payments"}),
        ("(?i)ORDERS", {"orders"}),
        ("(?i)x|ORDERS", {"orders"}),
        ("(?:(?i)O)rders", {"orders"}),
        ("(?P<kind>orders)(?<more>-2)?", {"orders", "orders-2"}),
        (r"\Qorders.eu\E", {"orders.eu"}),
        (r"orders\Q.eu", {"orders.eu"}),
        ("[[:alpha:]]+", {"orders", "payments"}),
        ("[[:^alpha:].d-u]+", {"orders", "orders.eu", "orders-2"}),
        (r"[[:alpha:]]+[^[:alpha:]]\d", {"orders-2"}),
        (r"orders\x{2d}2", {"orders-2"}),
        ("orders{", set()),
        ("order{1}s", {"orders"}),
        ("x{0}orders", {"orders"}),
        ("", set()),
        ("größe|orders", {"orders"}),
        ("((((orders))))", {"orders"}),
        ("(){9}((){1000}){1000}orders", {"orders"}),
    ],
)
def test_supported_syntax(text: str, matched: set[str]) -> None:
    assert Pattern(text).among(["orders", "orders.eu", "orders-2", "payments"]) == matched


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("pay/.*", {"pay/eu:1", "pay/größe"}),
        (r"pay/[a-z]+:\d", {"pay/eu:1"}),
        ("pay/gr[^a-z]{2}e", {"pay/größe"}),
        ("(?i)pay us", {"pay us", "Pay US"}),
        ("pay[[:space:]][[:lower:]]+", {"pay us"}),
        ("[[:print:]]+", {"pay/eu:1", "pay us", "Pay US"}),
        ("größe", set()),
    ],
)
def test_names_with_other_characters_than_those_of_topics(text: str, matched: set[str]) -> None:
    assert Pattern(text).among(["pay/eu:1", "pay us", "Pay US", "pay/größe"]) == matched


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(a", "missing )"),
        ("a)", "unmatched )"),
        ("[a", "missing ]"),
        ("a**", "nested quantifier"),
        ("a*+", "nested quantifier"),
        ("*a", "quantifier without an expression"),
        ("|+", "quantifier without an expression"),
        ("a{3,2}", "invalid repetition count"),
        ("a{1001}", "invalid repetition count"),
        ("(?=a)", "unsupported group syntax"),
        ("(?!a)", "unsupported group syntax"),
        ("(?<=a)", "unsupported group syntax"),
        (r"(a)\1", r"unsupported escape sequence \1"),
        (r"\pL", r"unsupported escape sequence \p"),
        (r"\bword", r"unsupported escape sequence \b"),
        ("a\\", "trailing backslash"),
        ("a^b", "^ is supported at the start only"),
        ("a$b", "$ is supported at the end only"),
        ("(a|b$)c", "$ is supported"),
        ("[b-a]", "invalid character range"),
        ("[[:letters:]]", "unknown character class [:letters:]"),
        (r"\xg1", r"\x requires two"),
        ("(?P<>a)", "a group name"),
        ("a" * 1001, "limit of 1000"),
        ("(a{100}){100}", "exceed 500"),
        ("(" * 60 + ")" * 60, "deeper than"),
        (r"[\d-z]", "invalid character range"),
    ],
)
def test_unsupported_syntax_is_rejected_with_a_message(text: str, said: str) -> None:
    with pytest.raises(PatternError, match=re.escape(said)):
        Pattern(text)


@pytest.mark.parametrize(
    "text",
    ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)b", "([a-z]+)*[0-9]", "(.*a){12}", "((a{0,9}){0,9}){0,5}b"],
)
def test_patterns_with_exponential_backtracking_elsewhere_are_fast(text: str) -> None:
    """Python's `re` takes hours for some of these."""
    topics = ["a" * 249, *("a" * i + ALPHABET[33 + i % 60] for i in range(200))]
    began = time.process_time()
    Pattern(text).among(topics)
    assert time.process_time() - began < 2


def test_a_pattern_above_the_cost_limit_is_rejected() -> None:
    names_ = ["".join("ab"[n >> (i % 20) & 1] for i in range(249)) for n in range(0, 1_000_000, 501)]
    began = time.process_time()
    with pytest.raises(PatternError, match="work limit"):
        Pattern(".*a.{200}(.*b.{90})?").among(names_)
    assert time.process_time() - began < 10
