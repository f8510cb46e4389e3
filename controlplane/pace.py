"""How fast a copy goes, when it ends, and why it does not: pure arithmetic over samples of what is left.

Laws: an end is a range or None, never a point; what was not measured is not said. Samples come from the sizes of logs as brokers told them.
Called by `moves` (verdicts), `services.advancing` (what is kept) and `selectors.moves`. Must not come in: clocks (now is passed in), rows, brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NO_SPACE, TARGET_DOWN, SOURCE_DOWN, THROTTLE = "no_space", "target_down", "source_down", "throttle"
FETCH_ERROR, CONTROLLER, REFUSED, WILL_NOT_FINISH = "fetch_error", "controller", "refused", "will_not_finish"
UNFIT, CUT_DUE = "unfit", "cut_due"
CAUSES = (
    NO_SPACE, TARGET_DOWN, SOURCE_DOWN, THROTTLE, FETCH_ERROR, CONTROLLER, REFUSED, WILL_NOT_FINISH, UNFIT, CUT_DUE,
)  # fmt: skip
"""Why a part does not come to an end. Quotas are not among them: brokers among themselves are no clients and have none here."""

RECENT_SECONDS = 120.0
"""What ends are foretold from: longer than a pause of garbage collection or of a disk, shorter than the working day."""
SPEED_SECONDS = 20.0
"""A speed is over these last seconds: the brokers' sizes come every three to ten."""
OUTRUN_SECONDS = 45.0
"""Seconds for which growth must outrun the copy before it is said; with the age of a sample it is on screen within 60."""
FORETOLD_SECONDS = 10.0
"""Seconds of measured growth that are enough where a throttle below it says the same beforehand."""
HEADROOM = 1.25
"""A copy that shall end needs this much more than what comes in."""
SAMPLES_MAX = 240
"""Of a move's whole life; when it is full, every second one of the older half goes."""
OVERHEAD_SECONDS = 5.0
"""Between the last byte and the end: the ISR grows, the controller drops the old copies, the observer sees it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`at` in Unix seconds, `left` and `done` in bytes. left + done is all there is to copy at that moment, which grows with the log."""

    at: float
    left: int
    done: int


Samples = Sequence[Sample]


def added(samples: Samples, new: Sample) -> tuple[Sample, ...]:
    """With `new` at the end, thinned where there are too many; the first one stays."""
    out = [*samples, new]
    if len(out) > SAMPLES_MAX:
        half = len(out) // 2
        out = [*out[:half:2], *out[half:]]
    return tuple(out)


def recent(samples: Samples, now: float, seconds: float = RECENT_SECONDS) -> Samples:
    return [s for s in samples if s.at >= now - seconds]


def speed(samples: Samples, now: float) -> float | None:
    """Copied bytes/s over the last SPEED_SECONDS (or since the last two samples, where they are older); None without two samples."""
    if len(samples) < 2:
        return None
    first = next((s for s in samples[:-1] if s.at >= now - SPEED_SECONDS), samples[-2])
    last = samples[-1]
    # Nothing since the last sample is measured as nothing once it is old: a copy that stands has no speed.
    seconds = max(last.at, now - SPEED_SECONDS) - first.at if last.at < now - SPEED_SECONDS else last.at - first.at
    return max(0.0, (last.done - first.done) / seconds) if seconds > 0 else None


def growth(samples: Samples, now: float) -> float | None:
    """Bytes/s by which the whole grows, over the recent samples; None without FORETOLD_SECONDS of them."""
    known = recent(samples, now)
    if len(known) < 2 or (seconds := known[-1].at - known[0].at) < FORETOLD_SECONDS:
        return None
    return max(0.0, (known[-1].left + known[-1].done - known[0].left - known[0].done) / seconds)


def outrun(samples: Samples, now: float) -> float | None:
    """The growth in bytes/s when for OUTRUN_SECONDS no less came in than was copied, though something was copied; else None."""
    known = recent(samples, now)
    if len(known) < 2:
        return None
    first = next((s for s in reversed(known) if known[-1].at - s.at >= OUTRUN_SECONDS), None)
    if first is None or known[-1].done <= first.done or known[-1].left <= 0:
        return None
    return growth(samples, now) if known[-1].left >= first.left else None


def rates(samples: Samples, now: float) -> list[float]:
    """Bytes/s by which what is left became less, one per stretch of about a tenth of the recent past, the slowest first."""
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


def ends_in(samples: Samples, now: float) -> tuple[float, float] | None:
    """(soonest, latest) in seconds from now, as p10 to p90 of the recent rates and their mean, widened where few were measured. None: not
    known, or not in sight."""
    if not samples:
        return None
    last = samples[-1]
    if last.left <= 0:
        return 0.0, OVERHEAD_SECONDS * 2
    measured = rates(samples, now)
    if not measured:
        return None
    mean = sum(measured) / len(measured)
    if mean <= 0:
        return None
    fast = max(mean, _quantile(measured, 0.9))
    slow = max(mean / 4, min(mean, _quantile(measured, 0.1)))
    doubt = 1.0 + 1.0 / len(measured)  # one stretch: half to twice as long
    gone = max(0.0, now - last.at)
    soonest = last.left / (fast * doubt * 1.1)
    latest = last.left / slow * doubt * 1.2 + OVERHEAD_SECONDS * 2
    return max(0.0, soonest - gone), max(OVERHEAD_SECONDS, latest - gone)


def _quantile(ordered: Sequence[float], q: float) -> float:
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def needed(growths: Iterable[tuple[Iterable[int], float]]) -> float:
    """The throttle in bytes/s that lets these copies end: of each (target brokers, growth) summed per broker, the largest, with headroom."""
    per_broker: dict[int, float] = {}
    for targets, bytes_per_s in growths:
        for b in targets:
            per_broker[b] = per_broker.get(b, 0.0) + bytes_per_s
    return HEADROOM * max(per_broker.values(), default=0.0)


def foretold(growths: Mapping[int, tuple[Iterable[int], float]], throttle: int) -> set[int]:
    """Of copies (by id: target brokers, growth) those on a broker into which more comes in than `throttle` bytes/s let through."""
    per_broker: dict[int, float] = {}
    for targets, bytes_per_s in growths.values():
        for b in targets:
            per_broker[b] = per_broker.get(b, 0.0) + bytes_per_s
    drowned = {b for b, bytes_per_s in per_broker.items() if bytes_per_s >= throttle}
    return {i for i, (targets, _) in growths.items() if drowned & set(targets)}


def to_json(samples: Samples) -> list[list[float]]:
    return [[round(s.at, 2), s.left, s.done] for s in samples]


def from_json(rows: Iterable[Sequence[float]]) -> tuple[Sample, ...]:
    return tuple(Sample(float(at), int(left), int(done)) for at, left, done in rows)


def amount(bytes_per_s: float) -> str:
    """A rate as a person reads it."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.1f} {unit}"
    return f"{bytes_per_s:.0f} B/s"
