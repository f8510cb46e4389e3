"""Self-healing for pages and REST: actions with their settings, and what they did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.healing import RULES, HealingAction, HealingLimits, HealingMode
from controlplane.models import HealingRun, HealingSetting
from controlplane.selectors.paging import Page, PageStart, paginate


@dataclass(frozen=True, slots=True)
class HealingActionRow:
    """An action of self-healing. `mode`: off, dry_run or on. `changed_at` null: never changed, so off."""

    action: str
    text: str
    when: str
    mode: str
    cool_down_s: int
    per_hour: int
    changed_at: datetime | None
    changed_by: str

    @property
    def is_on(self) -> bool:
        return self.mode == HealingMode.ON


@dataclass(frozen=True, slots=True)
class HealingRunRow:
    """`outcome`: dry_run, done or rejected. `subject`: partition and broker, or empty for the cluster."""

    id: int
    at: datetime
    action: str
    outcome: str
    subject: str
    detail: str


def healing_actions() -> list[HealingActionRow]:
    rows = {r.action: r for r in HealingSetting.objects.all()}
    found = []
    for rule in RULES.values():
        row = rows.get(rule.action)
        found.append(
            HealingActionRow(
                action=rule.action,
                text=rule.text,
                when=rule.when,
                mode=row.mode if row is not None else HealingMode.OFF,
                cool_down_s=row.cool_down_s if row is not None else rule.cool_down_s,
                per_hour=row.per_hour if row is not None else rule.per_hour,
                changed_at=row.changed_at if row is not None else None,
                changed_by=row.changed_by if row is not None else "",
            )
        )
    return found


def healing_action(action: str) -> HealingActionRow | None:
    return next((r for r in healing_actions() if r.action == action), None)


def limits_in_force() -> dict[HealingAction, HealingLimits]:
    return {
        HealingAction(r.action): HealingLimits(HealingMode(r.mode), r.cool_down_s, r.per_hour)
        for r in healing_actions()
    }


def healing_runs(*, page: PageStart = 1, per_page: int = 50) -> Page[HealingRunRow]:
    """The newest first."""
    return paginate(
        HealingRun.objects.all(),
        lambda rows: [HealingRunRow(r.pk, r.at, r.action, r.outcome, r.subject, r.detail) for r in rows],
        page=page,
        per_page=per_page,
        sort="-id",
        columns={"id": "id"},
    )
