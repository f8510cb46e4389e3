"""The cluster at an earlier time, from the kept metadata log (decision 061): the known times, the image at one of them, what differs between two.

Invariant: the state at a time is either completely known, or the response is "unknown" with the known times before and after. No state is guessed. A read does
not wait for brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError
from controlplane.domain import page_phrases as texts
from controlplane.domain.cluster_difference import (
    DifferenceKind,
    StateDifference,
    differences,
    record_differences,
)
from controlplane.domain.errors import Rejected, not_one_of
from controlplane.domain.metadata_history import unpack_entries, unpack_image
from controlplane.domain.times import utc_of_ms
from controlplane.models import Cluster, MetadataImage, MetadataSegment
from controlplane.selectors.paging import Page, PageStart, numbered_page
from weir_common.phrases import Phrase, sentence

CHANGES_MAX = 5_000
"""Maximum number of single changes in one response. The differences between the two ends are always complete."""

IMAGES_IN_MEMORY = 2
"""Number of decoded images that a process keeps in memory. An image of 100,000 partitions takes 3 s to decode and uses 70 MB."""


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """A time whose states are known. `entries`: changes of the metadata log within it."""

    since: datetime
    until: datetime
    entries: int


@dataclass(frozen=True, slots=True)
class KeptTime:
    """The known times, oldest first. Between two of them is a gap. `size_bytes`: of the database."""

    spans: list[KeptSpan]
    size_bytes: int


@dataclass(slots=True)
class PastImage:
    """The state at a time. `seq` and `entry_at`: the last entry of the metadata log before it, and its time."""

    at: datetime
    image: Image
    seq: int
    entry_at: datetime


@dataclass(frozen=True, slots=True)
class ClusterDifferenceRow:
    """A difference. `at`: its time, null in a comparison of two states. `before`, `after` null: there was none."""

    at: datetime | None
    kind: str
    subject: str
    before: str | None
    after: str | None
    topic: str
    partition: int | None
    broker: int | None


@dataclass(frozen=True, slots=True)
class KindCount:
    """The number of differences of one kind."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class ClusterDifference(Page[ClusterDifferenceRow]):
    """A page of differences. `kinds`: how many of each kind, without the filter by kind. `more`: there were more single changes than are listed."""

    since: datetime
    until: datetime
    kinds: list[KindCount]
    more: bool
    rows: list[ClusterDifferenceRow]


class UnknownTime(Rejected):
    """No state is kept for this time. `before` and `after`: the nearest known times."""

    def __init__(self, at: datetime, before: datetime | None, after: datetime | None) -> None:
        self.before, self.after = before, after
        near = ((texts.KNOWN_UNTIL, before), (texts.KNOWN_FROM, after))
        known = [Phrase(text, {"time": _text(time)}) for text, time in near if time] or [Phrase(texts.NOTHING_KEPT)]
        super().__init__(sentence(texts.TIME_NOT_KNOWN, at=_text(at), known=known), "at")


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


# -- kept times --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Span:
    first_seq: int
    last_seq: int
    begins_ms: int
    ends_ms: int
    entries: int = 0


def _spans() -> list[_Span]:
    """Images and segments as continuous times. Reads no data."""
    images = [(seq, seq, at_ms, at_ms, True) for seq, at_ms in MetadataImage.objects.values_list("seq", "at_ms")]
    columns = MetadataSegment.objects.values_list("first_seq", "last_seq", "begins_ms", "ends_ms")
    spans: list[_Span] = []
    # An entry that no image precedes cannot be read; an image with the number of an entry adds nothing to its span.
    for first, last, begins_ms, ends_ms, is_image in sorted([*images, *((*c, False) for c in columns)]):
        if spans and first <= spans[-1].last_seq + (not is_image):
            span = spans[-1]
            span.entries += max(0, last - span.last_seq)
            span.last_seq, span.ends_ms = max(span.last_seq, last), max(span.ends_ms, ends_ms)
        elif is_image:
            spans.append(_Span(first, last, begins_ms, ends_ms))
    if spans:
        cluster = Cluster.objects.filter(pk=1).values_list("metadata_seq", "observed_at").first()
        if cluster is not None and cluster[1] is not None and cluster[0] == spans[-1].last_seq:
            spans[-1].ends_ms = max(spans[-1].ends_ms, _ms(cluster[1]))
    return spans


def kept_time() -> KeptTime:
    spans = [KeptSpan(utc_of_ms(s.begins_ms), utc_of_ms(s.ends_ms), s.entries) for s in _spans()]
    sizes = [*MetadataImage.objects.values_list("size_bytes", flat=True)]
    sizes += MetadataSegment.objects.values_list("size_bytes", flat=True)
    return KeptTime(spans, sum(sizes))


def _span_of(at: datetime) -> _Span:
    """Raises UnknownTime."""
    at_ms, before, after = _ms(at), None, None
    for span in _spans():
        if span.begins_ms <= at_ms <= span.ends_ms:
            return span
        if span.ends_ms < at_ms:
            before = utc_of_ms(span.ends_ms)
        elif after is None:
            after = utc_of_ms(span.begins_ms)
    raise UnknownTime(at, before, after)


# -- one state ---------------------------------------------------------------------------------------------------------
def moment(at: datetime) -> PastImage:
    """The state at a time, replayed from the image before it. Raises UnknownTime, and Rejected if the rows cannot be read."""
    return _moment(min(at, timezone.now()))


def _moment(at: datetime, earlier: PastImage | None = None) -> PastImage:
    """`earlier`: a state before, which is continued if no later image is kept."""
    span = _span_of(at)
    at_ms = _ms(at)
    images = MetadataImage.objects.filter(at_ms__lte=at_ms, seq__gte=span.first_seq, seq__lte=span.last_seq)
    row = images.order_by("seq").values("pk", "seq", "at_ms").last()
    if row is None:
        raise UnknownTime(at, None, None)
    try:
        if earlier is not None and row["seq"] <= earlier.seq:
            found = PastImage(at, _copy(earlier.image), earlier.seq, earlier.entry_at)
        else:
            stored = MetadataImage.objects.get(pk=row["pk"])
            image = _copy(_decode_image(bytes(stored.data), stored.seq, stored.controller_epoch))
            found = PastImage(at, image, row["seq"], utc_of_ms(row["at_ms"]))
        _replay(found, at_ms)
    except MetadataError as e:
        raise Rejected(sentence("This version cannot read the stored metadata log: {detail}", detail=e), "at") from e
    return found


@lru_cache(maxsize=IMAGES_IN_MEMORY)
def _decode_image(data: bytes, seq: int, controller_epoch: int) -> Image:
    """The image is cached and shared: copy it before a change."""
    return Image.from_records(unpack_image(data), seq, "", controller_epoch)


def _copy(image: Image) -> Image:
    """A copy that entries can be applied to. Only an image's maps and topics are changed in place."""
    return replace(
        image,
        brokers=dict(image.brokers),
        topics={i: replace(t, partitions=dict(t.partitions)) for i, t in image.topics.items()},
        topic_ids=dict(image.topic_ids),
        deleted=dict(image.deleted),
        broker_configs=dict(image.broker_configs),
        unfinished=list(image.unfinished),
        access={kind: dict(entries) for kind, entries in image.access.items()},
        features=dict(image.features),
    )


def _replay(moment_before: PastImage, until_ms: int) -> None:
    for _ in _apply_entries(moment_before, until_ms):
        pass


def _apply_entries(
    moment_before: PastImage, until_ms: int, changes: list[tuple[int, StateDifference]] | None = None
) -> Iterator[None]:
    """Apply the entries after `found.seq` up to a time. With `changes`, collect what each of them changes."""
    segments = MetadataSegment.objects.filter(last_seq__gt=moment_before.seq, begins_ms__lte=until_ms).order_by(
        "first_seq"
    )
    for epoch, data in segments.values_list("controller_epoch", "data").iterator(chunk_size=20):
        for entry in unpack_entries(bytes(data)):
            if entry.seq <= moment_before.seq:
                continue
            if entry.seq != moment_before.seq + 1 or entry.at_ms > until_ms:
                return
            for record in entry.records:
                if changes is not None and len(changes) <= CHANGES_MAX:
                    changes += [(entry.at_ms, d) for d in record_differences(moment_before.image, record)]
                moment_before.image.apply(record)
            moment_before.seq, moment_before.entry_at = entry.seq, utc_of_ms(entry.at_ms)
            moment_before.image.seq = entry.seq
            yield
        moment_before.image.controller_epoch = epoch


# -- two states --------------------------------------------------------------------------------------------------------
def difference(
    since: datetime,
    until: datetime,
    *,
    each: bool = False,
    kind: str = "",
    topic: str = "",
    broker: int | None = None,
    page: PageStart = 1,
    per_page: int = 50,
) -> ClusterDifference:
    """The differences between two times; with `each` every single change between them, in the order of time. `topic`: a part of the name. `broker`: only
    differences of this broker and of partitions that it leads, follows or has in the ISR before or after. Raises UnknownTime, Rejected."""
    if kind and kind not in list(DifferenceKind):
        raise not_one_of("There is no kind {value}. The kinds are: {allowed}.", kind, DifferenceKind, "kind")
    if since >= until:
        raise Rejected("The first time must be before the second.", "since")
    before, more = moment(since), False
    found: Sequence[tuple[int | None, StateDifference]]
    if each:
        end = _span_of(min(until, timezone.now()))
        if end.first_seq > before.seq:
            reason = sentence(
                "The changes between these times are not all kept: some before {time} are missing.",
                time=_text(utc_of_ms(end.begins_ms)),
            )
            raise Rejected(sentence("{reason} Compare the two states instead.", reason=reason), "since")
        changes: list[tuple[int, StateDifference]] = []
        for _ in _apply_entries(before, _ms(until), changes):
            pass
        more, found = len(changes) > CHANGES_MAX, changes[:CHANGES_MAX]
    else:
        after = _moment(min(until, timezone.now()), before)
        found = [(None, d) for d in differences(before.image, after.image)]
    found = [(at, d) for at, d in found if _matches(d, topic.lower(), broker)]
    kinds = Counter(d.kind for _, d in found)
    chosen = [(at, d) for at, d in found if kind in ("", d.kind)]
    start, window = numbered_page(len(chosen), page, per_page)
    return ClusterDifference(
        since=since,
        until=until,
        kinds=[KindCount(k, kinds[k]) for k in DifferenceKind if kinds[k]],
        more=more,
        rows=[
            ClusterDifferenceRow(
                None if at is None else utc_of_ms(at),
                d.kind,
                d.subject,
                d.before,
                d.after,
                d.topic,
                d.partition,
                d.broker,
            )
            for at, d in chosen[start : start + window.per_page]
        ],
        total=len(chosen),
        window=window,
        sort="",
        query=topic,
    )


def _matches(row: StateDifference, topic: str, broker: int | None) -> bool:
    if topic and topic not in row.topic.lower():
        return False
    return broker is None or row.broker == broker or broker in row.brokers
