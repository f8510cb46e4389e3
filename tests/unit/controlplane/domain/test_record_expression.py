"""Filter expressions as data: variables, batches, reasons, and errors with their position."""

from __future__ import annotations

from brokerd.wire.records import Record
from controlplane.domain.masking import REPLACEMENT, MaskRule, MaskTarget, RecordRenderer
from controlplane.domain.record_expression import (
    BATCH_RECORDS,
    OTHER_REASONS,
    REASONS_MAX,
    EvaluationErrors,
    batch_of,
    reason_of,
    rejection,
    variables_of,
)


def test_variables_are_decoded_and_masked() -> None:
    record = Record(7, 1_000, b"order-1", b'{"card": 1, "name": "Ann"}', (("region", b"eu"), ("region", b"us")))
    shown = variables_of(3, record, RecordRenderer("orders"))
    assert shown == ("order-1", {"card": 1, "name": "Ann"}, {"region": "us"}, 3, 7, 1_000)
    rules = [
        MaskRule("*", MaskTarget.VALUE, "$.card"),
        MaskRule("*", MaskTarget.KEY),
        MaskRule("*", MaskTarget.HEADER, "region"),
    ]
    masked = variables_of(3, record, RecordRenderer("orders", rules))
    assert masked[:3] == (REPLACEMENT, {"card": REPLACEMENT, "name": "Ann"}, {"region": REPLACEMENT})


def test_a_batch_has_limits_and_at_least_one_record() -> None:
    small = [Record(o, 0, None, b"v") for o in range(2 * BATCH_RECORDS)]
    assert len(batch_of(small)) == BATCH_RECORDS
    assert len(batch_of([Record(0, 0, None, b"v" * 2_000_000), *small])) == 1
    assert batch_of([]) == []


def test_reasons_are_counted_up_to_a_limit() -> None:
    errors = EvaluationErrors()
    for n in range(REASONS_MAX + 5):
        errors.add(f"no such field f{n}")
    errors.add("no such field f0")
    assert errors.total == REASONS_MAX + 6 and len(errors.rows()) == REASONS_MAX + 1
    assert {(e.reason, e.records) for e in errors.rows()} >= {(OTHER_REASONS, 5), ("no such field f0", 2)}


def test_reasons_name_the_field() -> None:
    assert reason_of('NOT_FOUND: Key not found in map : "amount"') == "no such field amount"
    assert reason_of("INVALID_ARGUMENT: divide by zero") == "invalid argument: divide by zero"
    assert reason_of("something else") == "something else"


def test_an_error_has_its_position_and_a_hint() -> None:
    error = rejection(
        "ERROR: <input>:1:9: Syntax error: mismatched input 'and' expecting <EOF>\n", "value.a and value.b"
    )
    assert error.field == "expression" and "Column 9" in error.reason and "Write && for and." in error.reason
    error = rejection("ERROR: <input>:2:1: undeclared reference to 'foo' (in container '')\n", "true &&\nfoo")
    assert "Line 2, column 1" in error.reason and "The variables are key, value" in error.reason
    assert "Write == to compare." in rejection("ERROR: <input>:1:3: token\n", "a = 1").reason
