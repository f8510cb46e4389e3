"""Reasons and results of offset resets, as sentences with values. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.offset_reset_types import Key, OffsetDifference
from weir_common.phrases import counted, joined, sentence

NAMED_MAX = 5
"""Maximum number of partitions that a message names; the row has all of them."""


def active_reason(group_id: str, members: int) -> str:
    if not members:
        return sentence(
            "Group {group} is active; nothing was written. Stop its consumers, or wait until the group is empty.",
            group=repr(group_id),
        )
    return counted(
        members,
        "Group {group} is active ({count} member); nothing was written. Stop its consumers, or wait until the group is empty.",
        "Group {group} is active ({count} members); nothing was written. Stop its consumers, or wait until the group is empty.",
        group=repr(group_id),
    )


def difference_text(differences: Sequence[OffsetDifference]) -> str:
    none = sentence("none")
    parts = [
        sentence(
            "{partition}: {expected} -> {found}",
            partition=f"{d.topic}-{d.partition}",
            expected=d.expected.offset if d.expected else none,
            found=d.found.offset if d.found else none,
        )
        for d in differences[:NAMED_MAX]
    ]
    more = len(differences) - NAMED_MAX
    named = joined(parts, "; ")
    return sentence("Differences: {named}.", named=_with_more(named, more))


def names_of(keys: Sequence[Key]) -> str:
    return _with_more(", ".join(f"{t}-{i}" for t, i in keys[:NAMED_MAX]), len(keys) - NAMED_MAX)


def _with_more(named: str, more: int) -> str:
    return sentence("{named} and {count} more", named=named, count=more) if more > 0 else named
