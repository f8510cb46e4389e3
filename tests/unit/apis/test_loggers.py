"""Log levels of a broker with Kafka's names: shown, set, inherited again, and rejected."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from brokerd.apis import loggers
from brokerd.cluster.requests import AlterConfigOp, OpType

NAME = "brokerd.tests.loggers"


@pytest.fixture(autouse=True)
def restore_log_levels() -> Iterator[None]:
    logging.getLogger(NAME)
    root = logging.root.level
    yield
    logging.root.setLevel(root)
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def op(name: str, value: str | None, kind: OpType = OpType.SET) -> list[AlterConfigOp]:
    return [AlterConfigOp(name, kind, value)]


@pytest.mark.parametrize(
    ("word", "level"), [("FATAL", 50), ("error", 40), ("WARN", 30), ("Info", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_a_level_is_set_by_kafkas_name(word: str, level: int) -> None:
    assert loggers.problem(op(NAME, word)) is None
    loggers.alter(op(NAME, word))
    assert logging.getLogger(NAME).level == level and loggers.loggers()[NAME] == word.upper()
    assert loggers.has_own_level(NAME)


def test_a_deleted_level_is_inherited() -> None:
    loggers.alter(op(NAME, "DEBUG"))
    loggers.alter(op("root", "ERROR"))
    loggers.alter(op(NAME, None, OpType.DELETE))
    assert loggers.loggers()[NAME] == loggers.loggers()["root"] == "ERROR"
    assert not loggers.has_own_level(NAME) and loggers.has_own_level("root")


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("no.such.logger", "INFO", OpType.SET, "does not exist"),
        (NAME, "LOUD", OpType.SET, "none of FATAL"),
        (NAME, None, OpType.SET, "none of FATAL"),
        (NAME, "INFO", OpType.APPEND, "is not allowed for the logger"),
        ("root", None, OpType.DELETE, "Removing the log level of the root logger"),
    ],
)
def test_an_invalid_change_has_its_reason(name: str, value: str | None, kind: OpType, message: str) -> None:
    assert message in (loggers.problem(op(name, value, kind)) or "")
