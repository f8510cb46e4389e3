"""Records of a topic by key that the brokers do not have any more, from its tables in the lake. Invariant: only records below the log start offset of their
partition, as a broker answered it, so none is found twice. Does not contain: the look-up of the brokers (`key_lookups`), the read (`clients.lake`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from django.conf import settings

from brokerd.wire.records import Record
from controlplane.clients import lake
from controlplane.domain.masking import RecordRenderer
from controlplane.selectors.lookup_rows import lookup_row
from controlplane.selectors.messages import MessageRow
from controlplane.selectors.spark_jobs import archive_jobs
from weir_common.lake_queries import QueryError
from weir_common.lake_records import LakeLookup
from weir_common.phrases import sentence


class LakeState(StrEnum):
    """`not_reached`: the brokers have not searched their records completely; the lake is searched after that. `no_table`: the topic is not in the lake."""

    SEARCHED = "searched"
    NOT_REACHED = "not_reached"
    NO_TABLE = "no_table"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LakeSearch:
    """The search of the lake, if it was requested. `records`: matches that were found there. `files`: data files that were read. `problem`: why it failed."""

    state: str
    records: int = 0
    files: int = 0
    problem: str = ""

    @property
    def is_searched(self) -> bool:
        return self.state == LakeState.SEARCHED

    @property
    def is_not_reached(self) -> bool:
        return self.state == LakeState.NOT_REACHED

    @property
    def has_no_table(self) -> bool:
        return self.state == LakeState.NO_TABLE


@dataclass(frozen=True, slots=True)
class LakeMatches:
    """`next_offsets`: {partition: offset below which the search continues}; empty if each record was searched."""

    search: LakeSearch
    rows: list[MessageRow] = field(default_factory=list)
    next_offsets: dict[int, int] = field(default_factory=dict)


def has_archive(topic: str) -> bool:
    """Return whether a Spark job copies the topic to the lake."""
    return any(topic in job.parameters["topics"] for job in archive_jobs())


def not_reached(before: dict[int, int]) -> LakeMatches:
    """The search of the lake comes later. `before`: as in `look_up_in_lake`, of the partitions whose leaders have searched all their records."""
    return LakeMatches(LakeSearch(LakeState.NOT_REACHED), next_offsets={p: o for p, o in before.items() if o > 0})


def look_up_in_lake(
    topic: str,
    key: bytes,
    *,
    header: str,
    before: dict[int, int],
    from_ms: int | None,
    to_ms: int | None,
    limit: int,
    renderer: RecordRenderer,
) -> LakeMatches:
    """The newest `limit` records below the offsets `before` of their partitions. Without such offsets no process is started."""
    searched = {partition: offset for partition, offset in before.items() if offset > 0}
    if not searched:
        return LakeMatches(LakeSearch(LakeState.SEARCHED))
    lookup = LakeLookup(topic, key, header, searched, from_ms, to_ms, limit, str(settings.WEIR.lake_dir))
    found = lake.records(lookup)
    if found.error is QueryError.NO_TABLE:
        return LakeMatches(LakeSearch(LakeState.NO_TABLE))
    if found.error is not None:
        return LakeMatches(LakeSearch(LakeState.FAILED, problem=found.detail), next_offsets=searched)
    note = sentence("From the lake.")
    rows = [
        lookup_row(
            r.partition,
            Record(r.offset, r.timestamp_ms, r.key, r.value, r.headers),
            r.key_size,
            r.value_size,
            renderer,
            note,
        )
        for r in found.records
    ]
    search = LakeSearch(LakeState.SEARCHED, len(rows), found.files)
    if not found.truncated:
        return LakeMatches(search, rows)
    # The records of one partition have descending offsets: those that are missing are below the last one.
    return LakeMatches(search, rows, searched | {r.partition: r.offset for r in found.records})
