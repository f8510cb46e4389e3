"""The Spark jobs by name: their parameters with type, default and limits. The console's forms, the REST API and the drivers use the same definition.

Contains values and their check only. The jobs themselves are classes in `pipeline.jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from weir_common.lake import ValueFormat
from weir_common.phrases import Phrase, sentence

NAMES_MAX = 100
"""Maximum number of topics or tables of one run: one driver reads all of them."""

TEXT_LENGTH_MAX = 2_000


class ParameterType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    TOPICS = "topics"
    TABLES = "tables"
    INSTANT = "instant"
    """ISO 8601 with a time zone, or empty for none."""


ParameterValue = bool | int | str | list[str]
"""The value of a parameter, by its type. Lists are names."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`default` None: the parameter is required. `minimum`, `maximum`: of an integer, in `unit`."""

    name: str
    type: ParameterType
    label: str
    help: str
    default: object = None
    minimum: int = 0
    maximum: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class JobKind:
    """`is_continuous`: the job runs until it is stopped. Other jobs end by themselves and can have a schedule."""

    name: str
    title: str
    summary: str
    parameters: tuple[Parameter, ...]
    is_continuous: bool = False


class ParameterError(ValueError):
    """A parameter is missing, unknown or has a value that is not allowed."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


_TOPICS = Parameter("topics", ParameterType.TOPICS, "Topics", "Names of the topics to read.")
_TABLES = Parameter("tables", ParameterType.TABLES, "Tables", "Names of the tables of the lake.")

ARCHIVE = "archive"
"""The kind that copies topics to the lake."""

KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        JobKind(
            ARCHIVE,
            "Archive",
            "Copies topics to Iceberg tables of the lake, each record exactly once.",
            (
                _TOPICS,
                Parameter(
                    "value_format",
                    ParameterType.CHOICE,
                    "Value format",
                    "How values become typed columns. raw: no typed columns. json: plain JSON objects. registry: values with the ID of a schema of the registry.",
                    ValueFormat.RAW.value,
                    choices=tuple(f.value for f in ValueFormat),
                ),
                Parameter(
                    "key_buckets",
                    ParameterType.INTEGER,
                    "Key buckets",
                    "New tables are partitioned by day, and by this many buckets of the key. With 0 they are partitioned by day only.",
                    0,
                    maximum=1_000,
                ),
                Parameter(
                    "records_per_batch",
                    ParameterType.INTEGER,
                    "Records per batch",
                    "Maximum number of offsets that a batch reads. A larger batch writes larger files and needs more memory.",
                    500_000,
                    minimum=1_000,
                    maximum=10_000_000,
                ),
                Parameter(
                    "trigger_seconds",
                    ParameterType.INTEGER,
                    "Batch interval",
                    "A batch starts at least this long after the previous one.",
                    30,
                    maximum=3_600,
                    unit="s",
                ),
                Parameter(
                    "until_end",
                    ParameterType.BOOLEAN,
                    "Stop at the end",
                    "Copies the records that exist when the job starts, then ends.",
                    False,
                ),
            ),
            is_continuous=True,
        ),
        JobKind(
            "compact",
            "Compact",
            "Merges small files of tables, expires snapshots and deletes files that no snapshot uses.",
            (
                _TABLES,
                Parameter(
                    "target_mb",
                    ParameterType.INTEGER,
                    "File size",
                    "Small files are merged into files of up to this size.",
                    128,
                    minimum=1,
                    maximum=2_048,
                    unit="MB",
                ),
                Parameter(
                    "snapshot_days",
                    ParameterType.INTEGER,
                    "Keep snapshots",
                    "Older snapshots are deleted. The newest one is always kept.",
                    7,
                    maximum=3_650,
                    unit="days",
                ),
                Parameter(
                    "orphan_days",
                    ParameterType.INTEGER,
                    "Keep unused files",
                    "Files that no snapshot uses are deleted after this time. Choose a longer time than the longest run of a job that writes to the table.",
                    3,
                    minimum=1,
                    maximum=365,
                    unit="days",
                ),
            ),
        ),
        JobKind(
            "replay",
            "Replay",
            "Produces the rows of a table to a topic again, each once, also across restarts.",
            (
                Parameter("table", ParameterType.TEXT, "Table", "Name of a table of the lake.", minimum=1),
                Parameter("topics", ParameterType.TOPICS, "Target topic", "The topic that receives the records."),
                Parameter(
                    "since",
                    ParameterType.INSTANT,
                    "Start time",
                    "Only records of this time and later. Leave empty to begin with the first record.",
                    "",
                ),
                Parameter(
                    "until",
                    ParameterType.INSTANT,
                    "End time",
                    "Only records before this time. Leave empty to end with the last record.",
                    "",
                ),
                Parameter(
                    "key",
                    ParameterType.TEXT,
                    "Key",
                    "Only records with this key, as text. Leave empty for all keys.",
                    "",
                ),
                Parameter(
                    "where",
                    ParameterType.TEXT,
                    "Filter",
                    "Only rows that match this condition on columns, for example partition = 1 and offset < 5000. Leave empty for all rows.",
                    "",
                ),
                Parameter(
                    "keeps_partition",
                    ParameterType.BOOLEAN,
                    "Keep the partition",
                    "Each record is written to the partition that it had. Otherwise its key decides the partition.",
                    True,
                ),
            ),
        ),
        JobKind(
            "reconcile",
            "Reconcile",
            "Compares topics with their tables, per hour, and lists the offsets that differ.",
            (_TOPICS,),
        ),
        JobKind(
            "history",
            "History",
            "Copies the history of metrics and the changes of the cluster to tables, before the database deletes them. Needs a daily schedule.",
            (
                Parameter(
                    "snapshot_days",
                    ParameterType.INTEGER,
                    "Keep snapshots",
                    "Older snapshots of these tables are deleted. The newest one is always kept.",
                    7,
                    maximum=3_650,
                    unit="days",
                ),
                Parameter(
                    "orphan_days",
                    ParameterType.INTEGER,
                    "Keep unused files",
                    "Files of these tables that no snapshot uses are deleted after this time.",
                    3,
                    minimum=1,
                    maximum=365,
                    unit="days",
                ),
            ),
        ),
        JobKind(
            "forecast",
            "Forecast",
            "Forecasts when disks are full and when groups have caught up, with intervals. Needs a schedule, for example hourly.",
            (
                Parameter(
                    "horizon_days",
                    ParameterType.INTEGER,
                    "Horizon of disks",
                    "A disk that is full later than this has no forecast time.",
                    30,
                    minimum=1,
                    maximum=90,
                    unit="days",
                ),
            ),
        ),
        JobKind(
            "profile",
            "Profile",
            "Reports skew of partitions and keys, record sizes and the gain of compression, with proposals.",
            (
                _TOPICS,
                Parameter(
                    "records_per_partition",
                    ParameterType.INTEGER,
                    "Records per partition",
                    "This many of the newest records of each partition are read.",
                    100_000,
                    minimum=100,
                    maximum=100_000_000,
                ),
            ),
        ),
    )
}


def parse(kind: JobKind, values: Mapping[str, object]) -> dict[str, ParameterValue]:
    """All parameters of a run: the given values, checked, and the defaults of the others. Raises ParameterError."""
    known = {p.name for p in kind.parameters}
    if unknown := sorted(set(values) - known):
        raise ParameterError(
            unknown[0],
            sentence(
                "{kind} has no parameter {name}; it has {known}.",
                kind=kind.name,
                name=repr(unknown[0]),
                known=", ".join(sorted(known)),
            ),
        )
    return {p.name: _value(p, values.get(p.name, p.default)) for p in kind.parameters}


def _value(parameter: Parameter, value: object) -> ParameterValue:
    label = Phrase(parameter.label)
    if value is None:
        raise ParameterError(parameter.name, sentence("{label} is required.", label=label))
    if parameter.type in (ParameterType.TOPICS, ParameterType.TABLES):
        names = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n for n in names):
            raise ParameterError(parameter.name, sentence("{label} must be a list of names.", label=label))
        names = sorted(set(names))
        if not names and parameter.default is None:
            raise ParameterError(parameter.name, sentence("{label} is required.", label=label))
        if len(names) > NAMES_MAX:
            raise ParameterError(
                parameter.name,
                sentence(
                    "{label} has {count} names; the maximum is {max}.", label=label, count=len(names), max=NAMES_MAX
                ),
            )
        return names
    if parameter.type is ParameterType.BOOLEAN:
        if not isinstance(value, bool):
            raise ParameterError(parameter.name, sentence("{label} must be true or false.", label=label))
        return value
    if parameter.type is ParameterType.INTEGER:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ParameterError(parameter.name, sentence("{label} must be an integer.", label=label))
        if not parameter.minimum <= value <= parameter.maximum:
            raise ParameterError(
                parameter.name,
                sentence(
                    "{label} must be from {minimum} to {maximum}, not {value}.",
                    label=label,
                    minimum=parameter.minimum,
                    maximum=parameter.maximum,
                    value=value,
                ),
            )
        return value
    return _text(parameter, value)


def _text(parameter: Parameter, value: object) -> str:
    label = Phrase(parameter.label)
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise ParameterError(
            parameter.name,
            sentence("{label} must be text of at most {max} characters.", label=label, max=TEXT_LENGTH_MAX),
        )
    if parameter.type is ParameterType.CHOICE and value not in parameter.choices:
        raise ParameterError(
            parameter.name,
            sentence(
                "{label} must be one of {choices}, not {value}.",
                label=label,
                choices=", ".join(parameter.choices),
                value=repr(value),
            ),
        )
    if parameter.type is ParameterType.INSTANT and value:
        try:
            if datetime.fromisoformat(value).tzinfo is None:
                raise ParameterError(
                    parameter.name, sentence("{label} needs a time zone, as in 2026-01-31T08:00:00+00:00.", label=label)
                )
        except ValueError:
            raise ParameterError(
                parameter.name, sentence("{label} must be a time, as in 2026-01-31T08:00:00+00:00.", label=label)
            ) from None
    return value
