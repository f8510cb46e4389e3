"""A query on the lake and its result, as JSON between the control plane and the process that runs it. Values only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SQL_LENGTH_MAX = 20_000

ROWS_MAX = 1_000
"""Maximum number of rows of a result: a page and a response show all of them."""

SECONDS_MAX = 30.0
"""Time limit of the process. It is killed afterwards."""

MEMORY_MB = 512
"""Memory limit of DuckDB. Nothing is spilled to a disk. The control plane limits the memory of the whole process."""


class QueryError(StrEnum):
    """The reason why there is no result."""

    NOT_A_QUERY = "not_a_query"
    FAILED = "failed"
    TIME = "time"
    MEMORY = "memory"
    NOT_READABLE = "not_readable"
    CRASHED = "crashed"
    NO_TABLE = "no_table"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """`truncated`: there are more rows. `error`: None for a result; `detail` explains it."""

    columns: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    truncated: bool = False
    seconds: float = 0.0
    error: QueryError | None = None
    detail: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def parse(text: str) -> QueryResult:
        values = json.loads(text)
        error = values["error"]
        return QueryResult(**{**values, "error": None if error is None else QueryError(error)})


@dataclass(frozen=True, slots=True)
class LakeQuery:
    """`lake_folder`: of the default lake (`LakeSettings.of_environment`)."""

    sql: str
    lake_folder: str
    rows_max: int = ROWS_MAX
    memory_mb: int = MEMORY_MB

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> LakeQuery:
        return LakeQuery(**json.loads(text))
