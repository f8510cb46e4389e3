"""Names of the lake that the pipeline writes and the control plane reads: tables, properties, reasons. Values only.

A topic has one table, and one of its dead letters when it has any. Both are in the namespace `topics`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

NAMESPACE = "topics"
METRICS_NAMESPACE = "metrics"
"""Tables of the jobs `history` (POINTS and CHANGES) and `forecast` (FORECASTS)."""

POINTS, CHANGES, FORECASTS = "points", "changes", "forecasts"
"""Averages of a minute of all metrics; changes by operators and events of the cluster."""

HISTORY_POSITION = "weir.history.position"
"""Property of the tables of the job `history`: what is copied. It changes in the commit that adds the rows. POINTS: the next day (ISO 8601).
CHANGES: JSON, the last id of each source. FORECASTS: the last run."""

DEAD_LETTERS_SUFFIX = "__dead_letters"

POSITIONS = "weir.positions"
"""Table property: JSON, the next offset to archive of each partition. It changes in the commit that adds the rows."""

DEAD_LETTERS = "weir.dead-letters"
"""Table property: JSON, the files of dead letters of the last commit that has any: {"id": ..., "files": [paths]}."""

DEAD_LETTERS_PUBLISHED = "weir.dead-letters-published"
"""Property of the table of dead letters: the `id` of the files that were added last."""

COLUMN_MEANINGS: dict[str, str] = {
    "timestamp_type": "0 = set by the producer, 1 = by the log",
    "schema_id": "ID of the schema registry",
    "metric_subject": "cluster, topic:NAME, group:ID, share_group:ID, broker:ID, partition:TOPIC:INDEX",
    "minute": "begin of the minute",
    "average": "average of the minute, three significant digits",
    "change_source": "change = by an operator, event = of the cluster",
    "change_id": "of the row in the database",
    "forecast_subject": "broker:ID or group:ID",
    "forecast_time": "time of the forecast",
    "forecast_level": "when is it reached",
    "forecast_low": "begin of the interval; null = after the end of the horizon",
    "horizon": "end of the horizon",
}
"""Documentation of columns, which a table stores in English and the console translates."""

JOB, OFFSETS, ROWS = "weir.job", "weir.offsets", "weir.rows"
"""Properties in the summary of a snapshot: the job, the offset ranges {"partition": [first, next]} as JSON, and the rows of the commit."""


class ValueFormat(StrEnum):
    """The format from which the values of a topic become typed columns."""

    RAW = "raw"
    """No typed columns."""
    JSON = "json"
    """Plain JSON objects. A column has the type of its first value."""
    REGISTRY = "registry"
    """Avro, Protobuf or JSON with the ID of a schema registry."""


class DeadLetterReason(StrEnum):
    """The reason why a record is in the table of dead letters."""

    NOT_JSON = "not_json"
    NO_SCHEMA_ID = "no_schema_id"
    UNKNOWN_SCHEMA = "unknown_schema"
    DOES_NOT_MATCH_SCHEMA = "does_not_match_schema"
    SCHEMA_CONFLICT = "schema_conflict"
    """The schema has a column whose type differs from the table's."""
    TYPE_MISMATCH = "type_mismatch"
    COLUMN_NAME = "column_name"
    TOO_MANY_COLUMNS = "too_many_columns"


@dataclass(frozen=True, slots=True)
class DeadLetterFiles:
    """Files of dead letters. The commit of a topic's table lists them, and the next commit to the table of dead letters adds them."""

    id: str
    files: tuple[str, ...]

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str | None) -> DeadLetterFiles | None:
        if not text:
            return None
        found = json.loads(text)
        return DeadLetterFiles(found["id"], tuple(found["files"]))


def dead_letters_of(table: str) -> str:
    return table + DEAD_LETTERS_SUFFIX


def is_dead_letters(table: str) -> bool:
    return table.endswith(DEAD_LETTERS_SUFFIX)


def parse_positions(text: str | None) -> dict[int, int]:
    """The property POSITIONS as numbers; empty for a table without it."""
    return {int(partition): int(offset) for partition, offset in json.loads(text or "{}").items()}


def positions_text(positions: dict[int, int]) -> str:
    return json.dumps({str(partition): positions[partition] for partition in sorted(positions)})
