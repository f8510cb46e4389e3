"""Proposals to rebalance: goals in their order, before and after per broker. Law: nothing is written here; the button leads to the review of an
ordinary move, which makes the same proposal of what is there then."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from console.views.shell import page, signed_in
from controlplane.services import Refused, rebalancing
from controlplane.services.rebalancing import GOALS, TOLERANCE_DEFAULT, Load
from controlplane.words import some

CHANGES_SHOWN_MAX = 200
"""Rows of changes on the page; the sums above them are over all."""
WORDS = {
    "rack": "partitions that share a rack needlessly",
    "disk": "bytes per broker",
    "replicas": "replicas per broker",
    "leaders": "preferred leaders per broker",
    "traffic": "records per second led by a broker",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """Before and after, and how far from the mean of all, in per cent."""

    before: float
    after: float
    skew_before: float | None
    skew_after: float | None


@signed_in
def rebalance(request: HttpRequest) -> HttpResponse:
    q = request.GET
    asked = [g for g in q.getlist("goal") if g]
    tolerance = q.get("tolerance", "")
    context: dict[str, object] = {
        "goals": [(g, WORDS[g], g in asked or not asked) for g in _ordered(asked)], "tolerance": tolerance or TOLERANCE_DEFAULT,
    }  # fmt: skip
    try:
        p = rebalancing.proposed(asked or None, _number(tolerance), CHANGES_SHOWN_MAX)
    except Refused as error:
        return page(request, "console/rebalance.html", {**context, "error": error.reason}, nav="brokers", status=400)
    query = urlencode([("kind", "rebalance"), ("step", "review"), *(("goal", g) for g in p.scope["goals"]),
                       ("tolerance", p.scope["tolerance"])])  # fmt: skip
    context |= {
        "p": p, "rows": _rows(p.before, p.after), "words": WORDS, "review": f"{reverse('move-new')}?{query}",
        "button": f"Review the move: {some(p.copies, 'replica')} copied, {some(p.changes_total, 'partition')} touched",
        "body": {"goals": p.scope["goals"], "tolerance": p.scope["tolerance"]},
    }  # fmt: skip
    return page(request, "console/rebalance.html", context, nav="brokers")


def _ordered(asked: list[str]) -> list[str]:
    """What was asked for in its order, the others behind it."""
    first = [g for g in dict.fromkeys(asked) if g in GOALS]
    return [*first, *(g for g in GOALS if g not in first)]


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Refused(f"“{text}” is no share of the mean; write 0.1 for a tenth.", "tolerance") from None


def _rows(before: list[Load], after: list[Load]) -> list[tuple[int, list[tuple[str, Figure]]]]:
    """Per broker, its figures under their column's name."""
    columns = ("replicas", "leaders", "bytes", "records_per_s")
    means = {
        (c, i): sum(getattr(x, c) for x in loads) / len(loads) if loads else 0.0
        for c in columns
        for i, loads in enumerate((before, after))
    }

    def skew(value: float, mean: float) -> float | None:
        return round((value - mean) / mean * 100, 1) if mean else None

    return [
        (
            b.broker_id,
            [
                (
                    c,
                    Figure(
                        getattr(b, c), getattr(a, c), skew(getattr(b, c), means[c, 0]), skew(getattr(a, c), means[c, 1])
                    ),
                )
                for c in columns
            ],
        )
        for b, a in zip(before, after, strict=True)
    ]
