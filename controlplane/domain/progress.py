"""Rate, ETA and stall cause of a copy: arithmetic over samples of the remaining bytes. Pure.

Invariants: an ETA is a range or None, never one value. A value that was not measured is None. Samples are log sizes as reported by
brokers. Does not contain: clocks (now is an argument), rows, brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from controlplane.domain.limits import SAMPLE_GAP_MS


class StallCause(StrEnum):
    """The reason why a partition does not complete. Client quotas are not a cause: they do not apply to requests between brokers."""

    NO_SPACE = "no_space"
    TARGET_DOWN = "target_down"
    SOURCE_DOWN = "source_down"
    THROTTLE = "throttle"
    FETCH_ERROR = "fetch_error"
    CONTROLLER = "controller"
    REJECTED = "refused"
    WILL_NOT_FINISH = "will_not_finish"
    UNFIT = "unfit"
    DEADLINE_PASSED = "deadline_passed"


RECENT_SECONDS = 120.0
"""Seconds of samples that an ETA is computed from: longer than a pause by garbage collection or a disk, shorter than the daily pattern of traffic."""
SPEED_SECONDS = 20.0
"""Seconds that a rate covers. Brokers report sizes every three to ten seconds."""
GAP_SECONDS = SAMPLE_GAP_MS / 1000
OUTRUN_SECONDS = 45.0
"""Seconds for which the log must grow faster than the copy before it is reported. With the age of a sample it is visible within 60 s."""
GROWTH_SECONDS_MIN = 10.0
"""Seconds of measured growth that suffice if the throttle is below the growth."""
HEADROOM = 1.25
"""A copy that must complete needs this multiple of the growth."""
SAMPLES_MAX = 240
"""Maximum number of samples of a move. At the maximum, every second one of the older half is dropped."""
PART_BYTES_MIN = 1_000_000
"""A smaller partition is small. In the progress of a move each partition counts for at least this size, because a small one is also ordered, joins
the ISR and is compared. Without the minimum, a hundred empty partitions were four fifths of a move that had not begun to copy bytes."""
COPYING_SECONDS = 10.0
"""No ETA is shown before large partitions were copied for this time."""
PART_SECONDS = 0.5
"""Seconds that a partition takes in addition to its bytes: the order, the join of the ISR, the comparison, the removal of the old replicas. A
hundred empty partitions took about a minute."""
OVERHEAD_SECONDS = 5.0
"""Seconds from the last byte to the end: the ISR grows, the controller removes the old replicas, the monitor observes it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`at` in Unix seconds, `left` and `done` in bytes. left + done is the size of the whole copy at that moment; it grows with the log. `large`: the
    part of `done` in partitions of at least PART_BYTES_MIN; None without such partitions."""

    at: float
    left: int
    done: int
    large: int | None = None


Samples = Sequence[Sample]


@dataclass(frozen=True, slots=True)
class MoveTotals:
    """Totals over the partitions of a move: numbers of `parts`, of those that `ended`, were `rejected`, have an `unknown` size, have `arrived` at their
    target (None in rows of older versions). `total` and `done` in bytes, None = no size is known. `weight`: bytes of all, each part with at least
    PART_BYTES_MIN; `weight_ended` and `weight_arrived`: of those that have ended, of those that are at their target. `done_open`: bytes done of the
    others."""

    parts: int = 0
    ended: int = 0
    rejected: int = 0
    unknown: int = 0
    total: int | None = None
    done: int | None = None
    weight: int = 0
    weight_ended: int = 0
    weight_arrived: int = 0
    done_open: int = 0
    arrived: int | None = None


def add_sample(samples: Samples, new: Sample) -> tuple[Sample, ...]:
    """The samples with `new` at the end, thinned above SAMPLES_MAX. The first one stays."""
    out = [*samples, new]
    if len(out) > SAMPLES_MAX:
        half = len(out) // 2
        out = [*out[:half:2], *out[half:]]
    return tuple(out)


def recent(samples: Samples, now: float, seconds: float = RECENT_SECONDS) -> Samples:
    """The samples of the last `seconds`, from their last gap on."""
    found = [s for s in samples if s.at >= now - seconds]
    first = max((i for i in range(1, len(found)) if found[i].at - found[i - 1].at > GAP_SECONDS), default=0)
    return found[first:]


def speed(samples: Samples, now: float) -> float | None:
    """Copied bytes/s over the last SPEED_SECONDS, or between the last two samples if they are older. None with fewer than two samples
    without a gap between them."""
    if len(samples) < 2 or samples[-1].at - samples[-2].at > GAP_SECONDS:
        return None
    first = next((s for s in samples[:-1] if s.at >= now - SPEED_SECONDS), samples[-2])
    last = samples[-1]
    # An old last sample means that nothing was copied since: a stalled copy has the rate zero.
    seconds = max(last.at, now - SPEED_SECONDS) - first.at if last.at < now - SPEED_SECONDS else last.at - first.at
    return max(0.0, (last.done - first.done) / seconds) if seconds > 0 else None


def sample_rates(samples: Samples) -> list[float | None]:
    """Copied bytes/s up to each sample, None for the first one. Reports of loaded brokers come late: after samples without progress the rate is the average
    since the last progress. Over the time between two samples it would be many times the throttle."""
    out: list[float | None] = []
    since: Sample | None = None
    for s in samples:
        if since is None:
            since = s
            out.append(None)
            continue
        out.append(max(0.0, (s.done - since.done) / (s.at - since.at)) if s.at > since.at else None)
        if s.done != since.done:
            since = s
    return out


def growth(samples: Samples, now: float) -> float | None:
    """Growth of the whole copy in bytes/s over the recent samples; None with less than GROWTH_SECONDS_MIN of them."""
    known = recent(samples, now)
    if len(known) < 2 or (seconds := known[-1].at - known[0].at) < GROWTH_SECONDS_MIN:
        return None
    return max(0.0, (known[-1].left + known[-1].done - known[0].left - known[0].done) / seconds)


def production_surplus(samples: Samples, now: float) -> float | None:
    """Growth in bytes/s, if for OUTRUN_SECONDS at least as much was produced as copied, and something was copied; else None."""
    known = recent(samples, now)
    if len(known) < 2:
        return None
    first = next((s for s in reversed(known) if known[-1].at - s.at >= OUTRUN_SECONDS), None)
    if first is None or known[-1].done <= first.done or known[-1].left <= 0:
        return None
    return growth(samples, now) if known[-1].left >= first.left else None


def rates(samples: Samples, now: float) -> list[float]:
    """Decrease of the remaining bytes in bytes/s, one value per tenth of the recent samples, the lowest first."""
    known = recent(samples, now)
    if len(known) < 2:
        return []
    stretch = max(5.0, (known[-1].at - known[0].at) / 10)
    out, begin = [], known[0]
    for s in known[1:]:
        if s.at - begin.at >= stretch:
            out.append((begin.left - s.left) / (s.at - begin.at))
            begin = s
    if not out and (seconds := known[-1].at - known[0].at) > 0:
        out.append((known[0].left - known[-1].left) / seconds)
    return sorted(out)


def since_copying(samples: Samples) -> Samples:
    """The samples since large partitions are being copied; () before COPYING_SECONDS of that. The rate of empty and small partitions does not predict
    that of large ones. All samples of a move without large partitions."""
    copied, begin = 0.0, None
    for i, (a, b) in enumerate(pairwise(samples)):
        if b.large is None or b.large > (a.large or 0):
            copied += b.at - a.at
            begin = i if begin is None else begin
    return samples[begin:] if begin is not None and copied >= COPYING_SECONDS else ()


def ends_in(
    samples: Samples, now: float, *, throttle: int | None = None, busiest: int = 0, parts_left: int = 0
) -> tuple[float, float] | None:
    """(earliest, latest) in seconds from now: p10 to p90 of the recent rates and their mean, wider with few measurements. None: unknown, or no end
    in sight. The lower bound is the time that `busiest` (bytes left for the broker with the most) takes at the throttle in bytes/s. Each of
    the `parts_left` may take PART_SECONDS more."""
    if not samples:
        return None
    last = samples[-1]
    overhead = OVERHEAD_SECONDS * 2 + PART_SECONDS * parts_left
    if last.left <= 0:
        return 0.0, overhead
    measured = rates(since_copying(recent(samples, now)), now)
    if not measured:
        return None
    mean = sum(measured) / len(measured)
    if mean <= 0:
        return None
    fast = max(mean, _quantile(measured, 0.9))
    slow = max(mean / 4, min(mean, _quantile(measured, 0.1)))
    doubt = 1.0 + 1.0 / len(measured)  # one measurement: half to twice as long
    gone = max(0.0, now - last.at)
    soonest = last.left / (fast * doubt * 1.1)
    latest = last.left / slow * doubt * 1.2 + overhead
    if throttle:
        soonest = max(soonest, busiest / throttle)
        latest = max(latest, soonest + overhead)
    return max(0.0, soonest - gone), max(OVERHEAD_SECONDS, latest - gone)


def _quantile(ordered: Sequence[float], q: float) -> float:
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def required_throttle(growths: Iterable[tuple[Iterable[int], float]]) -> float:
    """Throttle in bytes/s with which these copies complete. Each is (target brokers, growth): the largest sum per broker, with headroom."""
    per_broker: dict[int, float] = {}
    for targets, bytes_per_s in growths:
        for b in targets:
            per_broker[b] = per_broker.get(b, 0.0) + bytes_per_s
    return HEADROOM * max(per_broker.values(), default=0.0)


def copies_that_outgrow_throttle(growths: Mapping[int, tuple[Iterable[int], float]], throttle: int) -> set[int]:
    """Ids of the copies on brokers whose growth is above `throttle` in bytes/s. Each copy is id: (target brokers, growth)."""
    per_broker: dict[int, float] = {}
    for targets, bytes_per_s in growths.values():
        for b in targets:
            per_broker[b] = per_broker.get(b, 0.0) + bytes_per_s
    drowned = {b for b, bytes_per_s in per_broker.items() if bytes_per_s >= throttle}
    return {i for i, (targets, _) in growths.items() if drowned & set(targets)}


def to_json(samples: Samples) -> list[list[float]]:
    return [[round(s.at, 2), s.left, s.done, *([] if s.large is None else [s.large])] for s in samples]


def from_json(rows: Iterable[Sequence[float]]) -> tuple[Sample, ...]:
    return tuple(Sample(float(r[0]), int(r[1]), int(r[2]), int(r[3]) if len(r) > 3 else None) for r in rows)


def rate_text(bytes_per_s: float) -> str:
    """A human-readable rate."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.1f} {unit}"
    return f"{bytes_per_s:.0f} B/s"
