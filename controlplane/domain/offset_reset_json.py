"""The stored forms of an offset reset: its partitions, differences and errors as JSON values. Pure.

A reset has up to `offset_reset.RESET_PARTITIONS_MAX` partitions, so a partition is a list without names. Reading raises ValueError where the value
does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokerd.cluster.partition_names import split_partition_name
from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset_types import (
    CommittedOffset,
    Key,
    LimitedBy,
    PartitionReset,
    ReportedDifference,
    RowProblem,
)
from weir_common.json_values import Json


def rows_to_json(rows: Iterable[PartitionReset]) -> list[Json]:
    return [_row_to_json(row) for row in rows]


def rows_from_json(data: Sequence[object]) -> tuple[PartitionReset, ...]:
    return tuple(_row_from_json(row) for row in data)


def differences_to_json(differences: Iterable[ReportedDifference]) -> list[Json]:
    return [[d.topic, d.partition, d.expected, d.found] for d in differences]


def differences_from_json(data: Sequence[object]) -> tuple[ReportedDifference, ...]:
    return tuple(_difference_from_json(row) for row in data)


def errors_to_json(errors: Mapping[Key, ErrorCode]) -> dict[str, str]:
    """{"topic-partition": name of the error}"""
    return {f"{topic}-{index}": code.name for (topic, index), code in sorted(errors.items())}


def errors_from_json(data: Mapping[str, str]) -> dict[Key, ErrorCode]:
    return {_key(name): _code(code) for name, code in data.items()}


def _row_to_json(row: PartitionReset) -> list[Json]:
    return [
        row.topic,
        row.partition,
        _offset_to_json(row.now),
        _offset_to_json(row.after),
        row.log_start,
        row.log_end,
        row.limited.value,
        row.problem.value if row.problem else None,
        row.replayed,
        row.skipped,
        row.lost,
        row.span_ms,
        row.span_at_least,
    ]


def _row_from_json(data: Any) -> PartitionReset:
    topic, index, now, after, start, end, limited, problem, replayed, skipped, lost, span_ms, span_at_least = data
    return PartitionReset(
        topic,
        index,
        _offset_from_json(now),
        _offset_from_json(after),
        start,
        end,
        LimitedBy(limited),
        RowProblem(problem) if problem else None,
        replayed,
        skipped,
        lost,
        span_ms,
        span_at_least,
    )


def _difference_from_json(data: Any) -> ReportedDifference:
    topic, index, expected, found = data
    return ReportedDifference(topic, index, expected, found)


def _key(name: str) -> Key:
    if (key := split_partition_name(name)) is None:
        raise ValueError(f"{name!r} is no partition")
    return key


def _code(name: str) -> ErrorCode:
    try:
        return ErrorCode[name]
    except KeyError:
        raise ValueError(f"{name!r} is no error code") from None


def _offset_to_json(value: CommittedOffset | None) -> list[Json] | None:
    return None if value is None else [value.offset, value.leader_epoch, value.metadata]


def _offset_from_json(value: list[Any] | None) -> CommittedOffset | None:
    if value is None:
        return None
    offset, leader_epoch, metadata = value
    return CommittedOffset(offset, leader_epoch, metadata)
