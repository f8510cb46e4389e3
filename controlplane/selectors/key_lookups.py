"""Records of a topic by key, read on demand from the leaders, and on request from the lake. Invariant: a look-up is limited in records, bytes and time; what it did not search is in
its token, by partition. Does not contain: permissions and the audit log (`services.records`)."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypedDict, Unpack

from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from controlplane.clients import key_lookups
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.domain.errors import Rejected
from controlplane.domain.lookup_token import decode_token, encode_token
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.record_scan import StopReason
from controlplane.domain.tail_move import is_tiered
from controlplane.models import Broker, ObservedPartition, ObservedTopic
from controlplane.selectors.lake_lookups import LakeMatches, LakeSearch, LakeState, look_up_in_lake, not_reached
from controlplane.selectors.lookup_rows import lookup_row
from controlplane.selectors.messages import DOWNLOAD_RESPONSE_BYTES, DOWNLOAD_SECONDS, MessageRow
from weir_common.phrases import counted, joined, sentence

MATCHES_MAX = 100
"""Maximum number of records of one look-up: a page, not an export."""
KEY_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a key in a query. The brokers reject longer ones."""
SCAN_BYTES = 256 * 1024 * 1024
"""Bytes of log that one look-up reads by default, in all partitions together."""
SCAN_BYTES_MAX = 1024 * 1024 * 1024
"""Maximum number of bytes of log that one look-up may read: some seconds of one thread of each leader."""
DURATION_SECONDS = 5.0
STOPS: dict[int, StopReason] = {
    LookupStop.LOG_START: StopReason.END,
    LookupStop.MATCHES: StopReason.LIMIT,
    LookupStop.BYTES: StopReason.BYTES,
    LookupStop.TIME: StopReason.TIME,
    LookupStop.REMOTE: StopReason.REMOTE,
}
NOTES = {
    StopReason.LIMIT: sentence("Older records may have this key."),
    StopReason.BYTES: sentence("The limit of bytes that one look-up reads is reached."),
    StopReason.TIME: sentence("The time limit of one look-up is reached."),
    StopReason.REMOTE: sentence("Older records are in the remote tier, which could not be searched."),
}
"""The reason why a look-up is not complete."""


class PartitionLookupState(StrEnum):
    """`more`: the look-up can be continued. `failed`: the leader did not respond."""

    COMPLETE = "complete"
    MORE = "more"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PartitionLookup:
    """The searched range of one partition. Records from `searched_from` up to `end_offset` were searched; those below `start_offset` are deleted or
    on history replicas, where no look-up reads. The remote tier is a part of this range. `indexed_end_offset`: below it each batch is in an index. `segments_indexed` includes segments whose
    index is being built. `stopped`: why a partition was not searched to its start: limit, bytes, time or remote; end = it was."""

    partition: int
    state: str
    stopped: str = ""
    problem: str = ""
    searched_from: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    indexed_end_offset: int | None = None
    log_bytes: int = 0
    index_bytes: int = 0
    segments_indexed: int = 0
    segments_scanned: int = 0

    @property
    def is_complete(self) -> bool:
        return self.state == PartitionLookupState.COMPLETE

    @property
    def is_failed(self) -> bool:
        return self.state == PartitionLookupState.FAILED


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Matches with the newest timestamp first. `complete` False = more records may match; `token` continues, where a leader has answered. `note`: why
    it is not complete. `lake`: null if its search was not requested."""

    topic: str
    rows: list[MessageRow] = field(default_factory=list)
    partitions: list[PartitionLookup] = field(default_factory=list)
    complete: bool = True
    token: str = ""
    log_bytes: int = 0
    index_bytes: int = 0
    took_ms: int = 0
    note: str = ""
    lake: LakeSearch | None = None

    @property
    def is_page(self) -> bool:
        """The look-up ended because the requested number of records was found, without a problem."""
        stops = {p.stopped for p in self.partitions if p.state == PartitionLookupState.MORE}
        return bool(self.rows) and stops == {StopReason.LIMIT} and not self.failed

    @property
    def failed(self) -> list[PartitionLookup]:
        return [p for p in self.partitions if p.is_failed]

    @property
    def stopped(self) -> str:
        """end, limit, bytes, time, remote, or failed."""
        stops = {p.stopped for p in self.partitions if p.state == PartitionLookupState.MORE}
        if self.complete or not (stops or self.failed):
            return StopReason.END.value
        return next((stop.value for stop in NOTES if stop.value in stops), PartitionLookupState.FAILED.value)

    @property
    def segments_indexed(self) -> int:
        return sum(p.segments_indexed for p in self.partitions)

    @property
    def segments_scanned(self) -> int:
        return sum(p.segments_scanned for p in self.partitions)


def has_key_index(topic: str) -> bool:
    """Return whether the brokers build an index of the keys of this topic."""
    configs = ObservedTopic.objects.filter(name=topic).values_list("configs", flat=True).first()
    return str((configs or {}).get("weir.index.keys", "")).lower() == "true"


class KeyLookupRange(TypedDict, total=False):
    """The part of a topic that a look-up searches, as arguments of `look_up_key`."""

    partitions: Sequence[int]
    from_ms: int | None
    to_ms: int | None
    lake: bool


class KeyLookupPaging(KeyLookupRange, total=False):
    """The range of a look-up, its limits and the token of the previous response."""

    limit: int
    bytes_max: int
    token: str
    duration_s: float


class KeyLookupOptions(KeyLookupPaging, total=False):
    """All keyword arguments of `look_up_key`."""

    header: str
    renderer: RecordRenderer | None


def look_up_key(
    topic: str,
    key: bytes,
    *,
    renderer: RecordRenderer | None = None,
    header: str = "",
    partitions: Collection[int] = (),
    from_ms: int | None = None,
    to_ms: int | None = None,
    limit: int = 32,
    bytes_max: int = SCAN_BYTES,
    token: str = "",
    duration_s: float = DURATION_SECONDS,
    lake: bool = False,
) -> KeyLookup:
    """Records of `topic` with this key, or with this value of the record header `header`. Raises Rejected for invalid arguments. `partitions`:
    empty = all. `token`: of the previous response to the same query. `renderer`: how the reader sees a record; None: without masking rules. `lake`: search
    for records that are below the log start offsets in the lake, after the leaders have searched theirs; `duration_s` does not limit it."""
    renderer = renderer or RecordRenderer(topic)
    before = _partitions(topic, partitions, token)
    _check(key, limit, bytes_max, from_ms, to_ms)
    began = time.monotonic()
    query = KeyLookupRequest(
        key=key,
        header_name=header,
        from_ms=-1 if from_ms is None else from_ms,
        to_ms=-1 if to_ms is None else to_ms,
        matches_max=limit,
        bytes_max=bytes_max,
        duration_ms_max=0,
    )
    matches, lookups, next_offsets = _search_leaders(topic, before, query, renderer, began + duration_s)
    archived = None
    if lake:
        without_remote = {p.partition for p in lookups if p.stopped == StopReason.REMOTE}
        below = {
            p.partition: _log_start(p, before[p.partition]) for p in lookups if p.state == PartitionLookupState.COMPLETE
        } | {index: next_offsets[index] for index in without_remote}
        if set(next_offsets) - without_remote:
            archived = not_reached(below)
        else:
            archived = look_up_in_lake(
                topic, key, header=header, before=below, from_ms=from_ms, to_ms=to_ms, limit=limit, renderer=renderer
            )
        matches += archived.rows
        if archived.search.state == LakeState.SEARCHED:
            next_offsets = dict(archived.next_offsets)
            lookups = [_complete(p) if p.partition in without_remote else p for p in lookups]
    rows = _newest_rows(matches, limit, next_offsets)
    lookups = [_not_shown(p, next_offsets) for p in lookups]
    if archived is not None:
        next_offsets = archived.next_offsets | next_offsets
    if archived is None or archived.search.state != LakeState.SEARCHED:
        lookups = _mark_unsearched_remote_tier(topic, lookups)
    return KeyLookup(
        topic=topic,
        rows=rows,
        partitions=lookups,
        complete=not next_offsets and all(p.state == PartitionLookupState.COMPLETE for p in lookups),
        token=encode_token(next_offsets),
        log_bytes=sum(p.log_bytes for p in lookups),
        index_bytes=sum(p.index_bytes for p in lookups),
        took_ms=int((time.monotonic() - began) * 1000),
        note=_note(lookups, archived),
        lake=None if archived is None else archived.search,
    )


def _search_leaders(
    topic: str, before: dict[int, int], query: KeyLookupRequest, renderer: RecordRenderer, until_s: float
) -> tuple[list[MessageRow], list[PartitionLookup], dict[int, int]]:
    """(matches, state of each partition, partitions to continue with the offset below which they continue). `before`: as in `_partitions`. `query`: of the
    whole look-up. Each partition gets an equal part of the bytes and of the time that are left, until `until_s` of the monotonic clock."""
    matches: list[MessageRow] = []
    lookups: list[PartitionLookup] = []
    next_offsets: dict[int, int] = {}
    bytes_max = query.bytes_max
    leaders = _Leaders(topic, before)
    try:
        for i, (index, offset) in enumerate(sorted(before.items())):
            remaining_s = until_s - time.monotonic()
            bytes_left = bytes_max - sum(p.log_bytes for p in lookups)
            if remaining_s <= 0 or bytes_left <= 0:
                next_offsets[index] = offset
                stopped = StopReason.TIME if remaining_s <= 0 else StopReason.BYTES
                lookups.append(PartitionLookup(index, PartitionLookupState.MORE, stopped.value))
                continue
            share = len(before) - i
            query.before_offset = offset
            query.bytes_max = max(1, bytes_left // share)
            query.duration_ms_max = max(1, int(remaining_s * 1000 / share))
            try:
                response = leaders.look_up(index, query)
            except (NoResponse, Declined) as e:
                next_offsets[index] = offset
                lookups.append(PartitionLookup(index, PartitionLookupState.FAILED, problem=str(e)))
                continue
            if response.stop != LookupStop.LOG_START:
                next_offsets[index] = response.next_before_offset
            matches += [_row(index, match, renderer) for match in response.matches]
            lookups.append(_part(index, response))
    finally:
        leaders.close()
    return matches, lookups, next_offsets


def _complete(part: PartitionLookup) -> PartitionLookup:
    """A partition whose older records were searched in the lake instead of the remote tier."""
    return replace(part, state=PartitionLookupState.COMPLETE, stopped=StopReason.END.value)


def _log_start(part: PartitionLookup, before: int) -> int:
    """The offset below which the lake is searched: no leader has such records."""
    start = part.start_offset or 0
    return start if before < 0 else min(start, before)


def look_up_for_download(
    topic: str,
    key: bytes,
    *,
    limit: int,
    token: str = "",
    seconds: float = DOWNLOAD_SECONDS,
    renderer: RecordRenderer | None = None,
    **searched: Unpack[KeyLookupRange],
) -> KeyLookup:
    """Look-ups one after the other, until `limit` records are found, the time is over, DOWNLOAD_RESPONSE_BYTES are reached, or a look-up makes no
    progress: a leader, the remote tier or the lake does not respond."""
    began = time.monotonic()
    rows: list[MessageRow] = []
    while True:
        remaining_s = seconds - (time.monotonic() - began)
        found = look_up_key(
            topic,
            key,
            limit=min(MATCHES_MAX, limit - len(rows)),
            token=token,
            duration_s=min(DURATION_SECONDS, max(0.1, remaining_s)),
            renderer=renderer,
            **searched,
        )
        rows += found.rows
        stuck = not found.token or (found.token == token and not found.rows)
        token = found.token
        size = sum(len(r.key or "") + len(r.value or "") for r in rows)
        over = len(rows) >= limit or size >= DOWNLOAD_RESPONSE_BYTES or time.monotonic() - began >= seconds
        lake_failed = found.lake is not None and found.lake.state == LakeState.FAILED
        if found.complete or found.failed or lake_failed or stuck or over:
            return replace(found, rows=rows, took_ms=int((time.monotonic() - began) * 1000))


def _check(key: bytes, limit: int, bytes_max: int, from_ms: int | None, to_ms: int | None) -> None:
    if len(key) > KEY_BYTES_MAX:
        raise Rejected(
            sentence("The key has {count} bytes; the maximum is {max}.", count=len(key), max=KEY_BYTES_MAX), "key"
        )
    if not 1 <= limit <= MATCHES_MAX:
        raise Rejected(
            sentence("{limit} records is out of range; use 1 to {max}.", limit=limit, max=MATCHES_MAX), "limit"
        )
    if not 1 <= bytes_max <= SCAN_BYTES_MAX:
        raise Rejected(
            sentence("{bytes_max} bytes is out of range; use 1 to {max}.", bytes_max=bytes_max, max=SCAN_BYTES_MAX),
            "bytes_max",
        )
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise Rejected("The start of the time range is after its end.", "from_ms")


def _partitions(topic: str, chosen: Collection[int], token: str) -> dict[int, int]:
    """The partitions to search, each with the offset below which it is searched; -1 is the end."""
    known = set(ObservedPartition.objects.filter(topic__name=topic).values_list("index", flat=True))
    if not known:
        raise Rejected(sentence("There is no topic {topic}.", topic=repr(topic)), "topic")
    if missing := sorted(set(chosen) - known):
        raise Rejected(
            sentence("Partition {topic}-{missing} does not exist.", topic=topic, missing=missing[0]), "partition"
        )
    if not token:
        return dict.fromkeys(chosen or known, -1)
    before = decode_token(token)
    if foreign := sorted(set(before) - set(chosen or known)):
        raise Rejected(
            sentence("The token belongs to another look-up: it names partition {foreign}.", foreign=foreign[0]), "token"
        )
    return before


class _Leaders:
    """The leaders of the partitions, with one connection per broker."""

    def __init__(self, topic: str, partitions: dict[int, int]) -> None:
        self._topic = topic
        rows = ObservedPartition.objects.filter(topic__name=topic, index__in=partitions)
        self._leader = dict(rows.values_list("index", "leader"))
        brokers = Broker.objects.filter(broker_id__in=[b for b in self._leader.values() if b is not None])
        self._address = {b.broker_id: (b.host, b.port) for b in brokers}
        self._open: dict[int, KafkaConnection] = {}

    def look_up(self, partition: int, query: KeyLookupRequest) -> KeyLookupResponse:
        """Raises NoResponse, Declined."""
        leader = self._leader.get(partition)
        if leader is None or leader not in self._address:
            raise Declined(f"{self._topic}-{partition} has no leader with a known address")
        if leader not in self._open:
            self._open[leader] = KafkaConnection(*self._address[leader])
        return key_lookups.look_up(self._open[leader], self._topic, partition, query)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


def _newest_rows(matches: list[MessageRow], limit: int, left: dict[int, int]) -> list[MessageRow]:
    """The newest `limit` rows. `left` is changed: a partition with a row that is not shown continues there. A row counts as at least as new as the
    rows of its partition at lower offsets, because a token has one offset per partition."""
    newest: dict[int, int] = {}
    ranked: list[tuple[int, int, MessageRow]] = []
    for row in sorted(matches, key=lambda r: r.offset):
        newest[row.partition] = max(newest.get(row.partition, -1), row.timestamp_ms or 0)
        ranked.append((newest[row.partition], row.offset, row))
    ranked.sort(key=lambda r: r[:2], reverse=True)
    for _, offset, row in reversed(ranked[limit:]):
        left[row.partition] = offset + 1
    return [row for _, _, row in ranked[:limit]]


def _not_shown(part: PartitionLookup, left: dict[int, int]) -> PartitionLookup:
    """A partition that is searched to its start, with matches beyond the limit, continues below its last row that is shown."""
    if part.state != PartitionLookupState.COMPLETE or part.partition not in left:
        return part
    offset = left[part.partition]
    return replace(part, state=PartitionLookupState.MORE, stopped=StopReason.LIMIT.value, searched_from=offset)


def _mark_unsearched_remote_tier(topic: str, parts: list[PartitionLookup]) -> list[PartitionLookup]:
    """A partition is not complete if it has records below the log start offset of its leader: they are in the remote tier."""
    row = ObservedTopic.objects.filter(name=topic).first()
    if row is None or not is_tiered(row.configs):
        return parts
    starts = dict(ObservedPartition.objects.filter(topic=row).values_list("index", "start_offset"))
    remote = {
        p.partition
        for p in parts
        if p.state == PartitionLookupState.COMPLETE and (p.start_offset or 0) > (starts.get(p.partition) or 0)
    }
    more, stopped = PartitionLookupState.MORE, StopReason.REMOTE.value
    return [replace(p, state=more, stopped=stopped) if p.partition in remote else p for p in parts]


def _note(parts: list[PartitionLookup], archived: LakeMatches | None) -> str:
    stops = {p.stopped for p in parts if p.state == PartitionLookupState.MORE}
    notes = [text for stop, text in NOTES.items() if stop.value in stops]
    if failed := sum(p.state == PartitionLookupState.FAILED for p in parts):
        notes.append(
            counted(failed, "{count} partition could not be searched.", "{count} partitions could not be searched.")
        )
    if archived is not None and archived.search.state == LakeState.FAILED:
        notes.append(sentence("The lake could not be searched."))
    return joined(notes) if notes else sentence("Each record of the range was searched.")


def _part(index: int, response: KeyLookupResponse) -> PartitionLookup:
    done = response.stop == LookupStop.LOG_START
    return PartitionLookup(
        partition=index,
        state=PartitionLookupState.COMPLETE if done else PartitionLookupState.MORE,
        stopped=STOPS.get(response.stop, StopReason.LIMIT).value,
        searched_from=response.start_offset if done else response.next_before_offset,
        start_offset=response.start_offset,
        end_offset=response.end_offset,
        indexed_end_offset=response.indexed_end_offset,
        log_bytes=response.log_bytes,
        index_bytes=response.index_bytes,
        segments_indexed=response.segments_indexed,
        segments_scanned=response.segments_scanned,
    )


def _row(partition: int, match: KeyLookupResponse.Match, renderer: RecordRenderer) -> MessageRow:
    headers = tuple((h.name, h.value) for h in match.headers)
    record = Record(match.offset, match.timestamp, match.key, match.value, headers)
    return lookup_row(partition, record, match.key_size, match.value_size, renderer)
