"""The levels of this broker's own log, as Kafka's resource BROKER_LOGGER (KIP-412): changed at once, forgotten at its end.

Law: Kafka's words for levels. Called by `configs`. Must not come in: where the log goes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

ROOT = "root"
LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}


def loggers() -> dict[str, str]:
    """The level in force of every logger there is."""
    known = [n for n, it in logging.root.manager.loggerDict.items() if isinstance(it, logging.Logger)]
    return {ROOT: _word(logging.root)} | {n: _word(logging.getLogger(n)) for n in sorted(known)}


def own(name: str) -> bool:
    """Whether its level is its own, not one inherited."""
    return name == ROOT or logging.getLogger(name).level != logging.NOTSET


def problem(operations: Iterable[Mapping[str, Any]]) -> str | None:
    known = loggers()
    for op in operations:
        name, value = op["name"], op.get("value")
        if name not in known:
            return f"Logger {name} does not exist!"
        if op["op"] not in ("set", "delete"):
            return f"{op['op']} is not allowed for the logger {name}"
        if op["op"] == "delete" and name == ROOT:
            return f"Removing the log level of the {ROOT} logger is not allowed"
        if op["op"] == "set" and (value or "").upper() not in LEVELS:
            return f"Cannot set the log level of logger {name} to {value}, which is none of {', '.join(LEVELS)}"
    return None


def alter(operations: Iterable[Mapping[str, Any]]) -> None:
    for op in operations:
        logger = logging.root if op["name"] == ROOT else logging.getLogger(op["name"])
        logger.setLevel(LEVELS[op["value"].upper()] if op["op"] == "set" else logging.NOTSET)


def _word(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((word for word, least in LEVELS.items() if level >= least), "TRACE")
