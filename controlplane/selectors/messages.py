"""Records of a topic, read on demand from the partition leaders, merged by timestamp.

Invariants: a read is limited in records, bytes and time. It says whether it is complete, and if not, why, and has a token to continue. Does not contain: the
scan (`domain.record_scan`), permissions and audit (`services.records`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from brokerd.wire.records import Record
from controlplane.clients.connection import NoResponse
from controlplane.clients.record_expressions import ExpressionProcess
from controlplane.clients.record_reader import CALL_SECONDS, RecordReaderClient
from controlplane.domain.errors import Rejected
from controlplane.domain.formats import Format, Rendered
from controlplane.domain.key_partition import Partitioner, key_partitions
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.page_phrases import NOT_READ_TO_END
from controlplane.domain.record_expression import EvaluationError, ExpressionFilter, variables_of
from controlplane.domain.record_filter import Matcher
from controlplane.domain.record_query import PARTITIONS_MAX, RecordQuery, ResumePoint, StartPosition
from controlplane.domain.record_scan import PartitionProblem, Scan, ScanBudget, ScanRange, StopReason, run
from controlplane.models import ObservedPartition
from controlplane.selectors.topic_growth import earlier_partition_counts
from weir_common.phrases import Phrase, counted, joined, sentence

PAGE_SECONDS, PAGE_BYTES, PAGE_RESPONSE_BYTES = 5.0, 64 * 1024 * 1024, 4 * 1024 * 1024
"""Limits of one read: time, fetched bytes, bytes of the found records."""

DOWNLOAD_SECONDS, DOWNLOAD_BYTES, DOWNLOAD_RESPONSE_BYTES = 20.0, 512 * 1024 * 1024, 32 * 1024 * 1024
DOWNLOAD_RECORDS_MAX = 10_000
"""Limits of one download: it is built in memory."""

PROBLEM_TEXTS: Mapping[PartitionProblem, str] = {
    PartitionProblem.NO_LEADER: "it has no leader. The records are readable again when a replica leads.",
    PartitionProblem.LEADER_UNREACHABLE: "the broker that leads it did not respond.",
    PartitionProblem.NO_PARTITION: "no broker knows it. It may be new, or the topic was deleted.",
    PartitionProblem.DENIED: "the console's own principal has no permission to read the topic (ACL).",
    PartitionProblem.UNREADABLE: "a record batch is damaged, or too large to decompress here.",
    PartitionProblem.STORAGE: "the broker reports an error of its disk.",
    PartitionProblem.NO_PROGRESS: "its leader returned no records, for example during an election. Continue the read.",
}

STOP_TEXTS: Mapping[StopReason, str] = {
    StopReason.END: sentence("All records of the range were read."),
    StopReason.LIMIT: sentence("There are more records in the range."),
    StopReason.TIME: sentence("The time limit of one read is reached."),
    StopReason.BYTES: sentence("The limit of fetched bytes of one read is reached."),
    StopReason.RESPONSE_BYTES: sentence("The limit of response bytes is reached."),
}


@dataclass(frozen=True, slots=True)
class MessageRow:
    """`key`, `value` and header values are text in a format, None = null; `key_format` and `value_format` may also be null or
    masked. `binary` names the fields that are shown as hex. `notes`: why a field does not have the requested format, is cut, or is masked."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: str | None
    value: str | None
    key_bytes: int
    value_bytes: int
    headers: list[tuple[str, str | None]]
    binary: list[str]
    key_format: str = Format.TEXT.value
    value_format: str = Format.TEXT.value
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """The range [start_offset, end_offset) of a read in one partition, `position`: how far it came. `problem`: no_leader, leader_unreachable,
    no_partition, denied, unreadable, storage, no_progress; "" = none. The offsets are null if the problem prevented their look-up."""

    partition: int
    start_offset: int | None
    end_offset: int | None
    position: int | None
    problem: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class KeyPartition:
    """The partition that a default partitioner chooses for the key: murmur2 (Java clients) or crc32 (librdkafka clients). `earlier_count`: number of partitions
    that the topic had when it chose this one; None: the number of today."""

    partitioner: str
    partition: int
    earlier_count: int | None = None

    @property
    def is_murmur2(self) -> bool:
        return self.partitioner == Partitioner.MURMUR2


@dataclass(frozen=True, slots=True)
class MessageRead:
    """`stopped`: end (all records of the range were read), limit, time, bytes, response_bytes. `complete`: stopped is end and no partition has a
    problem. `scanned`, `found`, `percent` and `took_ms` include the pages before. `resume`: the token to continue, "" at the end. `not_evaluated`:
    records of this page for which the filter expression could not be evaluated, and `evaluation_errors` why; they do not match."""

    topic: str
    rows: list[MessageRow] = field(default_factory=list)
    partitions: list[PartitionRead] = field(default_factory=list)
    key_partitions: list[KeyPartition] = field(default_factory=list)
    scanned: int = 0
    found: int = 0
    percent: float = 100.0
    records_per_s: int | None = None
    bytes_fetched: int = 0
    took_ms: int = 0
    complete: bool = True
    stopped: str = StopReason.END.value
    note: str = ""
    resume: str = ""
    not_evaluated: int = 0
    evaluation_errors: list[EvaluationError] = field(default_factory=list)

    @property
    def is_page(self) -> bool:
        """The read ended because the requested number of records was found, without a problem."""
        return self.stopped == StopReason.LIMIT and not self.problems

    @property
    def problems(self) -> list[PartitionRead]:
        return [p for p in self.partitions if p.problem]


@dataclass(frozen=True, slots=True)
class RawRead:
    """A read with the records as they are stored, as (partition, record)."""

    summary: MessageRead
    records: Sequence[tuple[int, Record]]


def page_budget(query: RecordQuery) -> ScanBudget:
    return ScanBudget(query.limit, PAGE_SECONDS, PAGE_BYTES, PAGE_RESPONSE_BYTES)


def download_budget(query: RecordQuery) -> ScanBudget:
    return ScanBudget(query.limit, DOWNLOAD_SECONDS, DOWNLOAD_BYTES, DOWNLOAD_RESPONSE_BYTES)


def read_messages(
    query: RecordQuery, resume: str = "", *, renderer: RecordRenderer, plain: RecordRenderer
) -> MessageRead:
    """One page of a read, as `renderer` shows it. `plain`: renders with automatic formats, for the filters of a reader with masking rules. Raises
    Rejected for an invalid query or token."""
    query.check()
    read = _read_records(query, resume, page_budget(query), plain)
    rows = [message_row(partition, record, renderer) for partition, record in read.records]
    return replace(read.summary, rows=rows)


def read_raw(query: RecordQuery, resume: str = "") -> RawRead:
    """Read one page of records as they are stored, without masking rules. Raises Rejected."""
    query.check()
    return _read_records(query, resume, page_budget(query), RecordRenderer(query.topic))


def read_for_download(
    query: RecordQuery, resume: str = "", *, renderer: RecordRenderer, plain: RecordRenderer
) -> MessageRead:
    """Read records with the limits of a download, as `renderer` shows them. Raises Rejected for an invalid query or token."""
    query.check(DOWNLOAD_RECORDS_MAX)
    read = _read_records(query, resume, download_budget(query), plain)
    return replace(read.summary, rows=[message_row(partition, record, renderer) for partition, record in read.records])


def selected_partitions(query: RecordQuery) -> tuple[list[int], list[KeyPartition]]:
    """(partitions to read, the partitions of the default partitioners for the filter by key). Raises Rejected."""
    existing = set(ObservedPartition.objects.filter(topic__name=query.topic).values_list("index", flat=True))
    if not existing:
        raise Rejected(sentence("There is no topic {topic}.", topic=repr(query.topic)), "topic")
    by_key: list[KeyPartition] = []
    if query.filters.key:
        by_key = _partitions_of_key(query.topic, query.filters.key.encode(), len(existing))
    if missing := sorted(set(query.partitions) - existing):
        raise Rejected(
            sentence("Partition {topic}-{missing} does not exist.", topic=query.topic, missing=missing[0]), "partitions"
        )
    chosen = set(query.partitions) or existing
    if by_key and not query.partitions and not query.all_partitions:
        chosen = existing & {k.partition for k in by_key}
    if len(chosen) > PARTITIONS_MAX:
        raise Rejected(
            sentence(
                "The topic has {count} partitions and one read merges at most {max}: choose partitions, for example 0-{max_2}.",
                count=f"{len(chosen):,}",
                max=PARTITIONS_MAX,
                max_2=PARTITIONS_MAX - 1,
            ),
            "partitions",
        )
    return sorted(chosen), by_key


def _partitions_of_key(topic: str, key: bytes, count: int) -> list[KeyPartition]:
    """The partitions that may have records with the key: those of today's number of partitions, and of each earlier one, the latest first."""
    counts = [None, *(n for n in earlier_partition_counts(topic) if n < count)]
    return [
        KeyPartition(name.value, index, earlier)
        for earlier in counts
        for name, index in key_partitions(key, earlier or count).items()
    ]


def _read_records(query: RecordQuery, resume: str, budget: ScanBudget, plain: RecordRenderer) -> RawRead:
    with expression_of(query, plain) as expression:
        return _scan(query, resume, budget, plain, expression)


@contextmanager
def expression_of(query: RecordQuery, plain: RecordRenderer) -> Iterator[ExpressionProcess | None]:
    """The evaluation of the filter expression, on the parts that the reader may see. Raises Rejected for one that is not understood."""
    if not query.filters.expression:
        yield None
        return
    query.matcher()  # checks the length of the expression
    with ExpressionProcess(query.filters.expression, lambda p, r: variables_of(p, r, plain)) as expression:
        yield expression


def _scan(
    query: RecordQuery, resume: str, budget: ScanBudget, plain: RecordRenderer, expression: ExpressionFilter | None
) -> RawRead:
    began = time.monotonic()
    matcher = query.matcher()
    if matcher is not None and plain.masks:
        matcher = masked_matcher(matcher, plain)
    partitions, by_key = selected_partitions(query)
    before = (
        ResumePoint.of_token(resume, query) if resume else ResumePoint((), query.since_ms(time.time_ns() // 1_000_000))
    )
    known = [r for r in before.ranges if r.partition in partitions]
    problems: dict[int, PartitionProblem] = {}
    notes: dict[int, str] = {}
    with RecordReaderClient(query.topic, budget.seconds + CALL_SECONDS) as reader:
        try:
            reader.load_leaders()
            missing = sorted(set(partitions) - {r.partition for r in known})
            ranges, problems, notes = _ranges(reader, query, missing, before.since_ms)
        except NoResponse:
            ranges, problems = [], dict.fromkeys(partitions, PartitionProblem.LEADER_UNREACHABLE)
            known, kept = [], known
        else:
            kept = []
        scan = Scan(known + ranges, budget, matcher, expression=expression, backward=query.backward)
        run(scan, reader, lambda: time.monotonic() - began)
    took_ms = int((time.monotonic() - began) * 1000)
    problems |= scan.problems
    at = ResumePoint(
        tuple(scan.ranges + kept),
        before.since_ms,
        before.scanned + scan.scanned,
        before.found + len(scan.found),
        before.elapsed_ms + took_ms,
    )
    over = scan.stopped is StopReason.END and not problems
    summary = MessageRead(
        topic=query.topic,
        partitions=_partition_reads(partitions, at.ranges, problems, notes),
        key_partitions=by_key,
        scanned=at.scanned,
        found=at.found,
        percent=_percent(at.ranges, query.backward),
        records_per_s=round(scan.scanned * 1000 / took_ms) if took_ms and scan.scanned else None,
        bytes_fetched=scan.bytes_fetched,
        took_ms=at.elapsed_ms,
        complete=over,
        stopped=(scan.stopped or StopReason.TIME).value,
        note=_note(scan.stopped or StopReason.TIME, problems),
        resume="" if over or not at.ranges else at.token(query),
        not_evaluated=scan.evaluation_errors.total,
        evaluation_errors=scan.evaluation_errors.rows(),
    )
    return RawRead(summary, scan.found)


def _ranges(
    reader: RecordReaderClient, query: RecordQuery, partitions: Sequence[int], since_ms: int
) -> tuple[list[ScanRange], dict[int, PartitionProblem], dict[int, str]]:
    """The range of each partition from the start position to its last stable offset, the problems of the others, and notes by partition."""
    logs, problems = reader.log_ranges(partitions)
    notes: dict[int, str] = {}
    starts = {p: start for p, (start, _) in logs.items()}
    if query.start in (StartPosition.MINUTES, StartPosition.TIMESTAMP):
        found, later = reader.offsets_at(logs, since_ms)
        problems |= later
        # -1: no record is at or after the timestamp.
        starts = {
            p: logs[p][1] if offset < 0 else min(max(offset, logs[p][0]), logs[p][1]) for p, offset in found.items()
        }
    elif query.start is StartPosition.OFFSET:
        offset = query.offset or 0
        for partition, (start, end) in logs.items():
            starts[partition] = max(start, min(offset, end))
            if not start <= offset <= end:
                notes[partition] = sentence(
                    "Offset {offset} is outside the log [{start}, {end}); read from {first}.",
                    offset=offset,
                    start=start,
                    end=end,
                    first=starts[partition],
                )
    ranges = [
        ScanRange(p, start, logs[p][1], logs[p][1] if query.backward else start) for p, start in sorted(starts.items())
    ]
    return ranges, problems, notes


def _partition_reads(
    partitions: Sequence[int],
    ranges: Sequence[ScanRange],
    problems: Mapping[int, PartitionProblem],
    notes: Mapping[int, str],
) -> list[PartitionRead]:
    known = {r.partition: r for r in ranges}
    out = []
    for p in partitions:
        r, problem = known.get(p), problems.get(p)
        note = (
            sentence(NOT_READ_TO_END, partition=str(p), problem=Phrase(PROBLEM_TEXTS[problem]))
            if problem
            else notes.get(p, "")
        )
        row = PartitionRead(p, None, None, None) if r is None else PartitionRead(p, r.start, r.end, r.position)
        out.append(replace(row, problem=problem.value if problem else "", note=note))
    return out


def _percent(ranges: Sequence[ScanRange], backward: bool) -> float:
    """Return the percentage of the range of offsets that was read. It is below 100 before the end, and 0 while no range is known."""
    if not ranges:
        return 0.0
    total = sum(r.end - r.start for r in ranges)
    done = sum(r.end - r.position if backward else r.position - r.start for r in ranges)
    return 100.0 if done >= total else min(99.9, round(100 * done / total, 1))


def _note(stopped: StopReason, problems: Mapping[int, PartitionProblem]) -> str:
    if not problems:
        return STOP_TEXTS[stopped]
    unread = counted(
        len(problems),
        "{count} partition could not be read to the end.",
        "{count} partitions could not be read to the end.",
    )
    return unread if stopped is StopReason.END else joined([STOP_TEXTS[stopped], unread])


def masked_matcher(matcher: Matcher, plain: RecordRenderer) -> Matcher:
    """The filter on the parts that the reader may see: matches of the stored bytes would disclose masked data. `plain`: with automatic formats."""

    def matches(record: Record) -> bool:
        key, value = plain.key(record.key).text, plain.value(record.value).text
        headers = [(name, plain.header(name, data).text) for name, data in record.headers]
        return matcher(
            Record(
                record.offset,
                record.timestamp,
                None if key is None else key.encode(),
                None if value is None else value.encode(),
                tuple((name, None if text is None else text.encode()) for name, text in headers),
            )
        )

    return matches


def message_row(partition: int, record: Record, renderer: RecordRenderer) -> MessageRow:
    key, value = renderer.key(record.key), renderer.value(record.value)
    headers = [(name, renderer.header(name, data)) for name, data in record.headers]
    shown = [("key", key), ("value", value), *((f"header {name}", header) for name, header in headers)]
    return MessageRow(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        key=key.text,
        value=value.text,
        key_bytes=key.size,
        value_bytes=value.size,
        headers=[(name, header.text) for name, header in headers],
        binary=[name for name, rendered in shown if rendered.format == Format.HEX],
        key_format=key.format,
        value_format=value.format,
        notes=[note for name, rendered in shown if (note := _rendered_note(name, rendered))],
    )


def _rendered_note(name: str, rendered: Rendered) -> str:
    parts = [rendered.note] if rendered.note else []
    if rendered.cut:
        parts.append(sentence("Only its beginning is shown."))
    return sentence("{name}: {note}", name=name, note=joined(parts)) if parts else ""


def message_line(topic: str, row: MessageRow) -> str:
    """A record as one line of JSON, for a download or the clipboard. The fields that `binary` names are hex."""
    line = {
        "topic": topic,
        "partition": row.partition,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms,
        "key": row.key,
        "value": row.value,
        "headers": row.headers,
    }
    more = {name: value for name, value in (("binary", row.binary), ("notes", row.notes)) if value}
    return json.dumps(line | more, ensure_ascii=False)
