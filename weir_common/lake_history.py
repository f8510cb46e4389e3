"""A read of the history of metrics in the lake, as JSON between the control plane and the process that reads. Values only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from weir_common.lake_queries import QueryError

HISTORY_SECONDS_MAX = 15.0
"""Time limit of the process. It is killed afterwards, because a page waits for it."""

HISTORY_MEMORY_MB = 256
"""Memory limit of DuckDB. Nothing is spilled to a disk."""

HISTORY_FILES_MAX = 5_000
"""Maximum number of data files of one read: a year of 366 days and 13 files per day with the requested subjects."""


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """`keys`: (subject, metric). Points of the steps in [since_s, until_s), Unix seconds. `lake_folder`: of the default lake."""

    keys: tuple[tuple[str, str], ...]
    since_s: int
    until_s: int
    step_s: int
    lake_folder: str
    memory_mb: int = HISTORY_MEMORY_MB

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> HistoryRequest:
        values = json.loads(text)
        return HistoryRequest(**{**values, "keys": tuple((subject, metric) for subject, metric in values["keys"])})


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Average and greatest value of the averages of a minute of the step that begins at `at_s`."""

    subject: str
    metric: str
    at_s: int
    value: float
    peak: float


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """`error`: None for a result; `detail` explains it. A step without a value has no point."""

    points: list[HistoryPoint] = field(default_factory=list)
    error: QueryError | None = None
    detail: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> HistoryResult:
        values = json.loads(text)
        error = values["error"]
        return HistoryResult(
            [HistoryPoint(**p) for p in values["points"]],
            None if error is None else QueryError(error),
            values["detail"],
        )
