"""Effect of moves on producers. Every few seconds the worker requests the produce latency from the brokers that a move loads. The
measurements are stored for the move's page. An adaptive throttle is recomputed each second, and a changed rate is stored.

Invariants: no transaction is open during a request to a broker. If a broker does not respond, the latency is unknown. It never counts as low. Rows
change by compare-and-set. Does not contain the choice of the rate (`controlplane.domain.throttle`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from django.db import transaction
from django.db.models import F

from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain import progress, throttle
from controlplane.domain.move_states import IN_FLIGHT
from controlplane.domain.throttle import ProducerLatency
from controlplane.models import Broker, Move
from controlplane.models.move import MoveState
from controlplane.services import throttles
from controlplane.services.common import Rejected
from weir_common.phrases import sentence

FLOOR_BYTES_PER_S = 1_000_000
"""Default floor: copying at this rate does not affect producers, and the move still finishes."""

WATCH_SECONDS = 3.0
"""Time between two measurements of producers without an adaptive throttle: the spacing of a chart."""


class ThrottleBounds(NamedTuple):
    """Bounds in bytes/s that an operator gives an adaptive throttle. `floor` None: the default floor."""

    cap: int
    floor: int | None = None


def bounds_of(value: Mapping[str, int]) -> ThrottleBounds:
    """The bounds in {"cap", "floor"}. Raises Rejected without a cap."""
    if value.get("cap") is None:
        raise Rejected("An adaptive throttle needs a maximum in bytes/s.", "throttle_bytes_per_s")
    return ThrottleBounds(value["cap"], value.get("floor"))


def floor_of(bounds: ThrottleBounds) -> int:
    """Check both bounds and return the floor in bytes/s. Raises Rejected."""
    floor = bounds.floor or min(FLOOR_BYTES_PER_S, bounds.cap)
    throttles.check(floor)
    throttles.check(bounds.cap)
    if floor > bounds.cap:
        raise Rejected(
            sentence("The minimum of {floor} bytes/s is above the maximum of {cap}.", floor=floor, cap=bounds.cap),
            "throttle_bytes_per_s",
        )
    return floor


def due_moves() -> list[int]:
    """Moves that need an update of their throttle or their producer latency."""
    rows = Move.objects.filter(state__in=(MoveState.RUNNING, MoveState.CANCELLING, MoveState.ROLLING_BACK))
    return list(rows.order_by("id").values_list("pk", flat=True))


def update_adaptive_throttle(move_id: int) -> float | None:
    """Run one step of the adaptive throttle. Returns the new rate in bytes/s; None for a fixed rate, and if another worker changed the row first. The learned
    state is stored in the row, so that any worker can run the next step."""
    move = Move.objects.filter(pk=move_id).first()
    if move is None:
        return None
    now, known = time.time(), move.producer_latency
    if move.adaptive is None and known.rows and now - known.rows[-1][0] < WATCH_SECONDS:
        return None
    reported, complete = _reported_latency(move)
    if not reported and complete:
        return None  # no copy is in progress
    before = known.counts
    waits = [w for b, c in reported.items() if b in before and (w := throttle.p99(before[b], c)) is not None]
    worst = max(waits, default=None)
    values: dict[str, object] = {
        "producer_latency": ProducerLatency(
            {**before, **reported}, _with_row(known.rows, (round(now, 2), worst if complete else None))
        )
    }
    rate = None
    if move.adaptive is not None and move.throttle_bytes_per_s is not None:
        # A broker's first response contains no latency yet, only the counters that later responses are compared with.
        rate = _next_rate(move, worst, complete and reported.keys() <= before.keys(), now, values)
    with transaction.atomic():
        changed = Move.objects.filter(pk=move.pk, version=move.version, adaptive__isnull=move.adaptive is None).update(
            **values
        )
        if changed and "version" in values:
            throttles.refresh()
    return rate if changed else None


def _next_rate(move: Move, worst: float | None, complete: bool, now: float, values: dict[str, object]) -> float:
    """The adaptive rate after this measurement. Adds the fields to be stored to `values`."""
    adaptive = move.adaptive
    assert adaptive is not None and move.throttle_bytes_per_s is not None
    speed = throttle.Speed(
        move.throttle_bytes_per_s if adaptive.rate is None else adaptive.rate,
        adaptive.baseline,
        now if adaptive.measured_at is None else adaptive.measured_at,
        own_p99=adaptive.own_p99,
        baseline_seconds=adaptive.baseline_seconds,
        affected_seconds=adaptive.affected_seconds,
        floor_seconds=adaptive.floor_seconds,
    )
    floor, cap = float(adaptive.floor), float(adaptive.cap)
    next_speed = throttle.next_speed(speed, worst, complete=complete, floor=floor, cap=cap, now=now)
    values["adaptive"] = replace(
        adaptive,
        rate=next_speed.rate,
        baseline=next_speed.baseline,
        measured_at=next_speed.measured_at,
        p99=worst,
        own_p99=next_speed.own_p99,
        baseline_seconds=next_speed.baseline_seconds,
        affected_seconds=next_speed.affected_seconds,
        floor_seconds=next_speed.floor_seconds,
    )
    edge = next_speed.rate in (floor, cap) and int(next_speed.rate) != move.throttle_bytes_per_s
    if edge or throttle.worth_writing(next_speed.rate, move.throttle_bytes_per_s):
        values |= {"throttle_bytes_per_s": int(next_speed.rate), "version": F("version") + 1}
    return next_speed.rate


def _with_row(
    rows: tuple[tuple[float, float | None], ...], new: tuple[float, float | None]
) -> tuple[tuple[float, float | None], ...]:
    """Append a row. Rows cover the whole time of the move. Their number is limited as for its samples: older rows are thinned (`progress.add_sample`)."""
    out = [*rows, new]
    if len(out) > progress.SAMPLES_MAX:
        half = len(out) // 2
        out = [*out[:half:2], *out[half:]]
    return tuple(out)


def _reported_latency(move: Move) -> tuple[dict[str, tuple[int, ...]], bool]:
    """The counters reported by each broker that the move's copies load, and whether all of them answered."""
    parts = move.parts.filter(state__in=IN_FLIGHT).values_list("replicas_from", "replicas_to")
    brokers = {b for old, new in parts for b in (*old, *new)}
    out: dict[str, tuple[int, ...]] = {}
    complete = True
    for b in Broker.objects.filter(broker_id__in=brokers, alive=True):
        try:
            out[str(b.broker_id)] = tuple(kafka.produce_times(b.host, b.port))
        except (NoResponse, Declined):
            complete = False
    return out, complete
