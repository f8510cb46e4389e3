"""Problems of consumer groups and share groups, by kind of alert, with the values for the placeholders of its texts. Pure.

Does not contain: the texts, and the severity of a kind (`alert`).
"""

from __future__ import annotations

import math

from controlplane.domain.alert_cases import about, names_of
from controlplane.domain.alert_phrases import AlertPhrase
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.alert_types import NAMES_MAX, AlertCase, AlertFacts, GroupFacts, Severity, ShareGroupFacts
from controlplane.domain.lag import LagStatus
from controlplane.domain.share_lag import ShareStall
from controlplane.domain.text import coarse_count, coarse_duration, needed_count
from weir_common.phrases import Phrase, Value, number_of

CATCH_UP_S = 3_600.0
"""The text of the alert contains the consume rate that a group needs to catch up within these seconds."""

_ONE, _MANY = {"is": "is", "has": "has"}, {"is": "are", "has": "have"}


def groups(facts: AlertFacts, status: LagStatus) -> list[AlertCase]:
    """One case per group, or one for all if they are more than the threshold: the groups are then not the cause. `who` is `Group a` or
    `25 groups (a, b, c and 22 more)`."""
    found = [g for g in facts.groups if g.status is status]
    count = max(len(found), facts.group_counts.get(status, 0))
    if count <= facts.thresholds[ThresholdName.GROUP_ALERTS_MAX]:
        return [
            AlertCase(
                g.group_id,
                {
                    "who": Phrase(AlertPhrase.GROUP, {"group": g.group_id}),
                    **_ONE,
                    "lag": _lag(g),
                    "detail": _detail(g),
                    "needs": _needs(g),
                },
            )
            for g in found
        ]
    names = [g.group_id for g in found[:NAMES_MAX]]
    who = Phrase(AlertPhrase.NAMED, {"what": number_of(count, *AlertPhrase.GROUPS), "names": names_of(names, count)})
    detail = Phrase(AlertPhrase.UNREAD) if status is LagStatus.DATA_LOST else ""
    return [AlertCase("", {"who": who, **_MANY, "lag": "", "detail": detail, "needs": ""})]


_STALLS = {
    ShareStall.NO_MEMBERS: (AlertPhrase.NO_MEMBERS, AlertPhrase.START_CONSUMERS),
    ShareStall.NOT_ASSIGNED: (AlertPhrase.NOT_ASSIGNED, AlertPhrase.CHECK_TOPICS),
    ShareStall.NO_PROGRESS: (AlertPhrase.NO_PROGRESS, AlertPhrase.READ_RECORD),
}
"""Text and advice of each cause."""


def share_groups(facts: AlertFacts) -> list[AlertCase]:
    """One case per share group that makes no progress, or one for all if they are more than the threshold."""
    found = facts.share_groups
    count = max(len(found), facts.share_group_count)
    if count <= facts.thresholds[ThresholdName.GROUP_ALERTS_MAX]:
        return [
            AlertCase(
                g.group_id,
                {
                    "who": Phrase(AlertPhrase.SHARE_GROUP, {"group": g.group_id}),
                    **_ONE,
                    "why": Phrase(_STALLS[g.stall][0], {"partition": g.partition}),
                    "lag": _lag(g),
                    "advice": Phrase(_STALLS[g.stall][1]),
                },
            )
            for g in found
        ]
    names = [g.group_id for g in found[:NAMES_MAX]]
    who = Phrase(
        AlertPhrase.NAMED, {"what": number_of(count, *AlertPhrase.SHARE_GROUPS), "names": names_of(names, count)}
    )
    return [AlertCase("", {"who": who, **_MANY, "why": "", "lag": "", "advice": Phrase(AlertPhrase.COMMON_CAUSE)})]


def _lag(g: GroupFacts | ShareGroupFacts) -> Value:
    if g.lag_records is None:
        return ""
    if g.lag_ms is None:
        return about(g.lag_records, AlertPhrase.LAG)
    if g.lag_at_least:
        return about(g.lag_records, AlertPhrase.LAG_AT_LEAST, age=coarse_duration(g.lag_ms / 1000, math.floor))
    return about(g.lag_records, AlertPhrase.LAG_FOR, age=coarse_duration(g.lag_ms / 1000))


def _detail(group: GroupFacts) -> Value:
    if group.status is LagStatus.DATA_LOST:
        lost = about(group.lost_records, AlertPhrase.LOST) if group.lost_records else Phrase(AlertPhrase.UNREAD)
        return Phrase(AlertPhrase.MOST_BEHIND, {"lost": lost, "partition": group.worst}) if group.worst else lost
    if group.status is LagStatus.STALLED:
        return Phrase(AlertPhrase.OF, {"partition": group.worst}) if group.worst else ""
    if group.consumed_per_s is None or group.produced_per_s is None:
        return ""
    return Phrase(
        AlertPhrase.PACE,
        {"consumed": coarse_count(group.consumed_per_s), "produced": coarse_count(group.produced_per_s)},
    )


def _needs(g: GroupFacts) -> Value:
    if g.lag_records is None or g.produced_per_s is None:
        return ""
    speed = needed_count(g.produced_per_s + g.lag_records / CATCH_UP_S)
    return Phrase(AlertPhrase.NEEDS, {"speed": speed})


def retention(facts: AlertFacts) -> list[AlertCase]:
    """One case per group, the earliest deletion first. If there are more groups than the threshold, one case for all groups."""
    value_of = facts.thresholds.value_for
    soon = [(g.retention_in_s, g) for g in facts.groups if g.retention_in_s is not None]
    ahead = ((at, g) for at, g in soon if at <= value_of(ThresholdName.RETENTION_AHEAD, g.group_id))
    found = sorted(ahead, key=lambda f: f[0])
    grave_groups = {g.group_id for at, g in found if at <= value_of(ThresholdName.RETENTION_GRAVE, g.group_id)}
    count = max(len(found), facts.retention_count)
    grave = Severity.AT_RISK if grave_groups else None
    if count > facts.thresholds[ThresholdName.GROUP_ALERTS_MAX]:
        soonest = coarse_duration(found[0][0])
        names = names_of([g.group_id for _, g in found[:NAMES_MAX]], count)
        where = Phrase(AlertPhrase.NAMED, {"what": number_of(count, *AlertPhrase.GROUPS), "names": names})
        return [
            AlertCase(
                "",
                {
                    "where": Phrase(AlertPhrase.NOT_CONSUMED_BY, {"groups": where}),
                    "when": Phrase(AlertPhrase.IN_AND_LATER, {"time": soonest}),
                    "limit": Phrase(AlertPhrase.LIMITS),
                },
                grave,
            )
        ]
    return [
        AlertCase(
            g.group_id,
            {
                "where": Phrase(AlertPhrase.NOT_CONSUMED, {"partition": g.retention_partition, "group": g.group_id}),
                "when": Phrase(AlertPhrase.WITHIN, {"time": coarse_duration(in_s, math.ceil)})
                if g.retention_at_most
                else Phrase(AlertPhrase.IN, {"time": coarse_duration(in_s)}),
                "limit": g.retention_limit,
            },
            Severity.AT_RISK if g.group_id in grave_groups else None,
        )
        for in_s, g in found
    ]
