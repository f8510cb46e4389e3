"""Conditions on columns of a table. Pure. pyiceberg's constructors are typed as those of pydantic models, which take other arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, In, LessThan


def equal(column: str, value: object) -> BooleanExpression:
    return _build(EqualTo, column, value)


def at_least(column: str, value: object) -> BooleanExpression:
    return _build(GreaterThanOrEqual, column, value)


def below(column: str, value: object) -> BooleanExpression:
    return _build(LessThan, column, value)


def one_of(column: str, values: Iterable[object]) -> BooleanExpression:
    return _build(In, column, set(values))


def every(*conditions: BooleanExpression) -> BooleanExpression:
    """The conjunction of the conditions; always true if there is none."""
    out: BooleanExpression = AlwaysTrue()
    for condition in conditions:
        out = And(out, condition)
    return out


def _build(kind: Callable[..., BooleanExpression], column: str, value: object) -> BooleanExpression:
    return kind(column, value)
