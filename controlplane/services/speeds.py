"""What producers feel of moves: each few seconds the brokers that a move burdens are asked how long producers wait. It is kept for the move's page; where
the throttle is adaptive it follows, looked at each second, and the rate is written down where it is another. Laws: no transaction is open while a
broker is asked; who does not answer counts as not seen, never as calm; rows change by compare-and-set. Called by the worker and by `moves`
(`floor_of`). Must not come in: how fast is right (`controlplane.adaptive`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from controlplane import adaptive, kafka, pace
from controlplane.models import Broker, Move
from controlplane.models.move import MoveState
from controlplane.moves import IN_FLIGHT
from controlplane.services import throttles
from controlplane.services.common import Refused

FLOOR_BYTES_PER_S = 1_000_000
"""Where no floor is given: a copy that nobody feels, and that still ends."""

WATCH_SECONDS = 3.0
"""Between looks at producers where no throttle follows them: a chart's spacing."""


def floor_of(said: Mapping[str, int]) -> int:
    """The floor, after checking both bounds. Raises Refused."""
    cap = said.get("cap")
    if cap is None:
        raise Refused("An adaptive throttle needs a cap in bytes/s.", "throttle_bytes_per_s")
    floor = said.get("floor") or min(FLOOR_BYTES_PER_S, cap)
    throttles.check(floor)
    throttles.check(cap)
    if floor > cap:
        raise Refused(f"The floor of {floor} bytes/s lies above the cap of {cap}.", "throttle_bytes_per_s")
    return floor


def due() -> list[int]:
    """Moves whose speed, or what it does to producers, wants a look."""
    rows = Move.objects.filter(state__in=(MoveState.RUNNING, MoveState.CANCELLING, MoveState.ROLLING_BACK))
    return list(rows.order_by("id").values_list("pk", flat=True))


def mind(move_id: int) -> float | None:
    """One look: the rate in bytes/s afterwards, None where it is nobody's to change. What was learned stands in the row: any worker may look next."""
    move = Move.objects.filter(pk=move_id).first()
    if move is None:
        return None
    now, known = time.time(), dict(move.waits)
    rows: list[list[float | None]] = known.get("rows", [])
    if move.adaptive is None and rows and now - (rows[-1][0] or 0.0) < WATCH_SECONDS:
        return None
    told, heard = _told(move)
    if not told and heard:
        return None  # nothing is under way
    before: Mapping[str, list[int]] = known.get("counts", {})
    waits = [w for b, c in told.items() if b in before and (w := adaptive.p99(before[b], c)) is not None]
    worst = max(waits, default=None)
    values: dict[str, Any] = {
        "waits": {"counts": {**before, **told}, "rows": _with(rows, [round(now, 2), worst if heard else None])}
    }
    rate = None
    if move.adaptive is not None and move.throttle_bytes_per_s is not None:
        # Who is asked for the first time has told no time yet, only where it counts from.
        rate = _stepped(move, worst, heard and told.keys() <= before.keys(), now, values)
    with transaction.atomic():
        changed = Move.objects.filter(pk=move.pk, version=move.version, adaptive__isnull=move.adaptive is None).update(
            **values
        )
        if changed and "version" in values:
            throttles.refresh()
    return rate if changed else None


def _stepped(move: Move, worst: float | None, heard: bool, now: float, values: dict[str, Any]) -> float:
    """The adaptive rate after this look; what is to be written of it goes into `values`."""
    known = dict(move.adaptive or {})
    assert move.throttle_bytes_per_s is not None
    speed = adaptive.Speed(
        known.get("rate", move.throttle_bytes_per_s), known.get("baseline"), known.get("heard", now),
        # Of a worker of before there is a baseline alone: what was learned until now is the producers' own.
        own=known.get("own", known.get("baseline")), learned=known.get("learned", 0), harmed=known.get("harmed", 0), slow=known.get("slow", 0),
    )  # fmt: skip
    floor, cap = float(known["floor"]), float(known["cap"])
    after = adaptive.stepped(speed, worst, heard=heard, floor=floor, cap=cap, now=now)
    values["adaptive"] = known | {
        "rate": after.rate, "baseline": after.baseline, "heard": after.heard, "p99": worst,
        "own": after.own, "learned": after.learned, "harmed": after.harmed, "slow": after.slow,
    }  # fmt: skip
    edge = after.rate in (floor, cap) and int(after.rate) != move.throttle_bytes_per_s
    if edge or adaptive.worth_writing(after.rate, move.throttle_bytes_per_s):
        values |= {"throttle_bytes_per_s": int(after.rate), "version": F("version") + 1}
    return after.rate


def _with(rows: list[list[float | None]], new: list[float | None]) -> list[list[float | None]]:
    """Of a move's whole life, thinned as its samples are (`pace.added`)."""
    out = [*rows, new]
    if len(out) > pace.SAMPLES_MAX:
        half = len(out) // 2
        out = [*out[:half:2], *out[half:]]
    return out


def _told(move: Move) -> tuple[dict[str, list[int]], bool]:
    """What each broker that its copies burden tells, and whether all did."""
    parts = move.parts.filter(state__in=IN_FLIGHT).values_list("replicas_from", "replicas_to")
    brokers = {b for old, new in parts for b in (*old, *new)}
    out: dict[str, list[int]] = {}
    heard = True
    for b in Broker.objects.filter(broker_id__in=brokers, alive=True):
        try:
            out[str(b.broker_id)] = kafka.produce_times(b.host, b.port)
        except (kafka.NoAnswer, kafka.Declined):
            heard = False
    return out, heard
