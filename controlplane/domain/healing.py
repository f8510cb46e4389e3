"""Self-healing: named actions that the worker takes for a failed health check or a damaged replica, and when it may. Pure.

Invariants: every action is off until an operator turns it on. An action runs at most once per cool-down and at most `per_hour` times per hour. A dry run
records what the action would do, with the same limits. Does not contain: rows, clocks, the actions themselves (`services.healing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

HOUR_S = 3_600.0

COOL_DOWN_S_MIN, COOL_DOWN_S_MAX = 60, 86_400
"""Bounds of a cool-down in seconds. The effect of an action must be visible before the action is repeated. A cool-down of more than a day would be as if the
action were off."""

PER_HOUR_MAX = 60
"""Maximum number of actions per hour that an operator can permit: one per shortest cool-down."""


class HealingAction(StrEnum):
    ELECT_PREFERRED_LEADERS = "elect_preferred_leaders"
    RECOVER_DAMAGED_REPLICA = "recover_damaged_replica"
    DEMOTE_SLOW_BROKER = "demote_slow_broker"


class HealingMode(StrEnum):
    OFF = "off"
    DRY_RUN = "dry_run"
    ON = "on"


class HealingVerdict(StrEnum):
    """The reason why an action is taken or not. Stored for DRY_RUN and the outcomes of `services.healing`."""

    NOTHING = "nothing"
    OFF = "off"
    COOLING_DOWN = "cooling_down"
    LIMITED = "limited"
    DRY_RUN = "dry_run"
    ACT = "act"


class HealingOutcome(StrEnum):
    DRY_RUN = "dry_run"
    DONE = "done"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class HealingRule:
    """`text` says what the action does, and `when` its condition. The other fields are the defaults of the limits."""

    action: HealingAction
    text: str
    when: str
    cool_down_s: int
    per_hour: int


RULES: dict[HealingAction, HealingRule] = {
    HealingAction.ELECT_PREFERRED_LEADERS: HealingRule(
        HealingAction.ELECT_PREFERRED_LEADERS,
        "Elects the preferred leaders of all partitions, as the button of the page “Elect preferred leaders” does.",
        "The health check “Preferred replicas lead” has failed for 5 minutes, all brokers are up, and no broker restart is in progress.",
        900,
        2,
    ),
    HealingAction.RECOVER_DAMAGED_REPLICA: HealingRule(
        HealingAction.RECOVER_DAMAGED_REPLICA,
        "Re-replicates one damaged replica from the leader of its partition. The only in-sync replica is never deleted.",
        "A broker reports a replica as damaged or offline, and no recovery of it was requested.",
        120,
        6,
    ),
    HealingAction.DEMOTE_SLOW_BROKER: HealingRule(
        HealingAction.DEMOTE_SLOW_BROKER,
        "Demotes one broker with a slow disk: other in-sync replicas lead its partitions. An operator restores its leadership.",
        "The health check “Disks are fast” has failed for a broker for 5 minutes, all brokers are up, and no broker is demoted.",
        1_800,
        1,
    ),
}


@dataclass(frozen=True, slots=True)
class HealingLimits:
    mode: HealingMode
    cool_down_s: int
    per_hour: int


def verdict(limits: HealingLimits, is_due: bool, runs_s: Sequence[float], now_s: float) -> HealingVerdict:
    """`is_due`: the condition of the action is met. `runs_s`: times of its earlier runs of any outcome, dry runs included."""
    if limits.mode is HealingMode.OFF:
        return HealingVerdict.OFF
    if not is_due:
        return HealingVerdict.NOTHING
    if runs_s and now_s - max(runs_s) < limits.cool_down_s:
        return HealingVerdict.COOLING_DOWN
    if sum(1 for at in runs_s if now_s - at < HOUR_S) >= limits.per_hour:
        return HealingVerdict.LIMITED
    return HealingVerdict.DRY_RUN if limits.mode is HealingMode.DRY_RUN else HealingVerdict.ACT


def limits_problem(cool_down_s: int, per_hour: int) -> tuple[str, str] | None:
    """(field, reason) of limits that are out of bounds; None if they are valid."""
    if not COOL_DOWN_S_MIN <= cool_down_s <= COOL_DOWN_S_MAX:
        return "cool_down_s", f"Enter a cool-down from {COOL_DOWN_S_MIN} to {COOL_DOWN_S_MAX:,} seconds."
    if not 1 <= per_hour <= PER_HOUR_MAX:
        return "per_hour", f"Enter a number from 1 to {PER_HOUR_MAX} per hour."
    return None
