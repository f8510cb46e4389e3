"""Health checks with their last results, their failures, and scores of objects. Reads only rows: results are as old as `checked_at`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from controlplane.domain.health import (
    RULE_OF,
    RULES,
    CheckCounts,
    CheckName,
    CheckRule,
    CheckScope,
    CheckState,
    cluster_score,
    object_score,
)
from controlplane.models import Broker, ConsumerGroup, HealthFailure, HealthResult, ObservedTopic
from controlplane.selectors import alert_thresholds
from controlplane.selectors.common import age_s
from controlplane.selectors.paging import Page, PageStart, ordered_page, paginate

OLD_AFTER_S = 90.0
"""Age of the last checks from which they count as old: three rounds of the monitor."""


@dataclass(frozen=True, slots=True)
class HealthCheckRow:
    """A check and its last result. `value`: of the object that is worst; null: no value is known. `failed` of `objects` fail, of `unknown` ones the value is not
    known. `since`: of the state. `at_least`: a value passes from `limit` on, else up to it. `threshold`: its name under alert-thresholds, empty: fixed."""

    name: str
    scope: str
    title: str
    impact: str
    action: str
    state: str
    value: float | None
    unit: str
    limit: float
    at_least: bool
    threshold: str
    objects: int
    failed: int
    unknown: int
    weight: int
    since: datetime | None
    checked_at: datetime | None

    @property
    def is_failed(self) -> bool:
        return self.state == CheckState.FAILED


@dataclass(frozen=True, slots=True)
class HealthReport:
    """`score`: 0 to 100, null: nothing is known."""

    score: int | None
    checked_at: datetime | None
    checks: list[HealthCheckRow]

    @property
    def age_s(self) -> float | None:
        return age_s(self.checked_at)

    @property
    def is_old(self) -> bool:
        """The monitor has omitted several rounds of checks."""
        return self.age_s is not None and self.age_s > OLD_AFTER_S


@dataclass(frozen=True, slots=True)
class HealthFailureRow:
    """An object that fails a check. `subject`: broker id, topic or group."""

    check: str
    subject: str
    value: float
    unit: str
    since: datetime


@dataclass(frozen=True, slots=True)
class HealthScoreRow:
    """`failed`: names of the checks that the object fails."""

    scope: str
    subject: str
    score: int
    failed: list[str]


def health_report(scope: str = "") -> HealthReport:
    """All checks, or those of one kind of object; the score is always that of all."""
    results = {r.name: r for r in HealthResult.objects.all()}
    thresholds = alert_thresholds.current_thresholds()
    rows = []
    for rule in RULES:
        result = results.get(rule.name)
        rows.append(
            HealthCheckRow(
                name=rule.name,
                scope=rule.scope,
                title=rule.title,
                impact=rule.impact,
                action=rule.do,
                state=result.state if result is not None else CheckState.UNKNOWN,
                value=result.value if result is not None else None,
                unit=rule.unit,
                limit=rule.limit_of(thresholds),
                at_least=rule.at_least,
                threshold=rule.threshold or "",
                objects=result.objects_count if result is not None else 0,
                failed=result.failed if result is not None else 0,
                unknown=result.unknown if result is not None else 0,
                weight=rule.weight,
                since=result.since if result is not None else None,
                checked_at=result.checked_at if result is not None else None,
            )
        )
    score = cluster_score(CheckCounts(CheckName(r.name), r.objects, r.failed, r.unknown) for r in rows)
    checked = max((r.checked_at for r in rows if r.checked_at is not None), default=None)
    return HealthReport(score, checked, [r for r in rows if scope in ("", r.scope)])


def rule_named(name: str) -> CheckRule | None:
    return RULE_OF[CheckName(name)] if name in list(CheckName) else None


def failure_list(check: str = "", *, page: PageStart = 1, per_page: int = 50) -> Page[HealthFailureRow]:
    """Stored failures, those that last longest first: of each check the worst 200 are stored."""
    rows = HealthFailure.objects.filter(name=check) if check else HealthFailure.objects.all()
    return paginate(
        rows,
        lambda found: [
            HealthFailureRow(f.name, f.subject, f.value, RULE_OF[CheckName(f.name)].unit, f.since) for f in found
        ],
        page=page,
        per_page=per_page,
        sort="since",
        columns={"since": "since"},
    )


def score_list(scope: str, *, page: PageStart = 1, per_page: int = 50) -> Page[HealthScoreRow]:
    """Brokers, topics or groups that fail a check, the lowest score first. All other objects have the score 100."""
    failed: dict[str, list[str]] = {}
    checks = [r.name for r in RULES if r.scope == scope]
    for name, subject in HealthFailure.objects.filter(name__in=checks).values_list("name", "subject"):
        failed.setdefault(subject, []).append(name)
    rows = [
        HealthScoreRow(scope, subject, object_score(CheckScope(scope), [CheckName(n) for n in names]), names)
        for subject, names in failed.items()
    ]
    order = [(attrgetter("score"), False), (attrgetter("subject"), False)]
    shown, total, window = ordered_page(rows, order, page=page, per_page=per_page)
    return Page(shown, total, window, "score", "")


def object_count(scope: str) -> int:
    """Number of objects of a kind."""
    match scope:
        case CheckScope.BROKER:
            return Broker.objects.count()
        case CheckScope.TOPIC:
            return ObservedTopic.objects.filter(internal=False).count()
        case CheckScope.GROUP:
            return ConsumerGroup.objects.count()
    return 1
