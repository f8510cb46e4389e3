"""The log levels of this broker, as Kafka's resource BROKER_LOGGER (KIP-412). A change is effective immediately, until the
process ends.

Level names are Kafka's. Does not contain: where the log is written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from brokerd.cluster.requests import AlterConfigOp, OpType

ROOT = "root"
LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}


def loggers() -> dict[str, str]:
    """The effective level of every logger."""
    known = [n for n, it in logging.root.manager.loggerDict.items() if isinstance(it, logging.Logger)]
    return {ROOT: _word(logging.root)} | {n: _word(logging.getLogger(n)) for n in sorted(known)}


def has_own_level(name: str) -> bool:
    """Return whether the logger has its own level, not an inherited one."""
    return name == ROOT or logging.getLogger(name).level != logging.NOTSET


def problem(operations: Iterable[AlterConfigOp]) -> str | None:
    known = loggers()
    for op in operations:
        name, value = op.name, op.value
        if name not in known:
            return f"Logger {name} does not exist!"
        if op.op not in (OpType.SET, OpType.DELETE):
            return f"{op.op} is not allowed for the logger {name}"
        if op.op is OpType.DELETE and name == ROOT:
            return f"Removing the log level of the {ROOT} logger is not allowed"
        if op.op is OpType.SET and (value or "").upper() not in LEVELS:
            return f"Cannot set the log level of logger {name} to {value}, which is none of {', '.join(LEVELS)}"
    return None


def alter(operations: Iterable[AlterConfigOp]) -> None:
    for op in operations:
        logger = logging.root if op.name == ROOT else logging.getLogger(op.name)
        logger.setLevel(LEVELS[(op.value or "").upper()] if op.op is OpType.SET else logging.NOTSET)


def _word(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((word for word, least in LEVELS.items() if level >= least), "TRACE")
