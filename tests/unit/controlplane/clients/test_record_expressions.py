"""Evaluation of expressions by the real process: results, rejections, and expressions that need too much time or memory."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.wire.records import Record
from controlplane.clients import record_expressions
from controlplane.clients.record_expressions import ENDED, ExpressionProcess
from controlplane.domain.errors import Rejected
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.record_expression import RECORD_BYTES_MAX, TOO_LARGE, variables_of

RENDERER = RecordRenderer("orders")


def record(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = (("region", b"eu"),)) -> Record:
    return Record(5, 1_764_057_600_000, b"order-1", value, headers)


def process(expression: str) -> ExpressionProcess:
    return ExpressionProcess(expression, lambda p, r: variables_of(p, r, RENDERER))


def results(expression: str, *values: bytes | None) -> list[bool | str]:
    with process(expression) as opened:
        return opened.evaluate(0, [record(v) for v in values])


def test_fields_headers_and_failures() -> None:
    found = results(
        'value.amount > 100 && headers["region"] == "eu"', b'{"amount": 150}', b'{"amount": 5}', b'{"a": 1}'
    )
    assert found == [True, False, "no such field amount"]


@pytest.mark.parametrize(
    "expression",
    [
        'key.startsWith("order-")',
        "value.items.exists(i, i.price >= 10.0)",
        "has(value.items) && !has(value.error)",
        'timestamp > timestamp("2025-11-25T00:00:00Z")',
        "partition == 0 && offset == 5",
        'value.state in ["failed", "late"]',
    ],
)
def test_the_examples_of_the_help(expression: str) -> None:
    assert results(expression, b'{"items": [{"price": 12.5}], "state": "late"}') == [True]


@pytest.mark.parametrize(
    "expression", ["value.amount >", "foo == 1", "partition = 3", "partition", "(" * 500, 'key == "a" + 1']
)
def test_an_expression_that_is_not_understood_is_rejected(expression: str) -> None:
    with pytest.raises(Rejected) as rejection:
        process(expression)
    assert rejection.value.field == "expression"


def test_null_and_large_values() -> None:
    assert results("value == null", None) == [True]
    assert results("value == null", b"x" * (RECORD_BYTES_MAX + 1), None) == [TOO_LARGE]


def test_too_much_time_or_memory_ends_the_process_and_then_the_filter() -> None:
    large = (
        b'{"a": ['
        + b",".join(b"%d" % i for i in range(9_000))
        + b'], "t": "'
        + b"a" * 30_000
        + b'b", "u": "'
        + b"a" * 60_000
        + b'"}'
    )
    with process("value.a.all(y, !value.u.contains(value.t))") as opened:
        assert opened.evaluate(0, [record(b'{"a": []}'), record(large), record(b'{"a": []}')]) == [True, ENDED]
        assert opened.evaluate(0, [record(b'{"a": []}')]) == [True]
        assert opened.evaluate(0, [record(large)]) == [ENDED]
        with pytest.raises(Rejected, match="3 records"):
            opened.evaluate(0, [record(large)])


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExpressionProcess, "_receive", lambda _: "missing")
    with pytest.raises(Rejected, match="weir\\[formats\\]"):
        process("true")
    assert record_expressions.WORKER.exists()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text("value.key[]()!&|=<>+-*/?:'\"\\{}, 0123\n\x00é", max_size=60))
def test_any_text_is_rejected_or_evaluated(expression: str) -> None:
    found: list[bool | str] = []
    with suppress(Rejected):
        found = results(expression, b'{"a": 1}')
    assert all(isinstance(result, bool | str) for result in found)
