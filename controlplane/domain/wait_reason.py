"""The reason why a whole move waits, as a phrase: pure.

The phrase is set only when no partition of the move makes progress. It counts the waiting partitions, so that a list of moves need not read
partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane.domain import progress
from controlplane.domain.move_states import ENDED, PartState
from controlplane.domain.move_types import PartView

RETENTION = "retention"
ITS_TURN = "its turn"
"""The brokers of the part are busy with other copies, or the move has reached its limit of parts in flight."""
IN_SYNC = "new replicas to be in sync"
THROTTLE_GONE = "removal of its throttle"

CAUSES: Mapping[str, str] = {
    progress.StallCause.NO_SPACE: "disk space on a target",
    progress.StallCause.TARGET_DOWN: "a target that is down",
    progress.StallCause.SOURCE_DOWN: "a leader",
    progress.StallCause.THROTTLE: "a higher throttle",
    progress.StallCause.FETCH_ERROR: "a target with fetch errors",
    progress.StallCause.CONTROLLER: "a controller",
    progress.StallCause.REJECTED: "an order that the controller rejects",
    progress.StallCause.UNFIT: "a retention limit of its topic",
    progress.StallCause.DEADLINE_PASSED: "deletion of old records: its deadline has passed",
}
"""The causes of `progress.StallCause` that stop a copy. `WILL_NOT_FINISH` is not one of them: such a copy continues."""

REASONS = (*CAUSES.values(), RETENTION, ITS_TURN, IN_SYNC, THROTTLE_GONE)
SEPARATOR = ", "


def waits_for(parts: Iterable[PartView], omitted: Mapping[PartState, int]) -> str:
    """`retention (12), a target that is down (3)`: the most frequent reason first, queued parts last; "" if a part makes progress or all have
    ended. `omitted`: number of parts by state that are not in `parts`."""
    counts: Counter[str] = Counter()
    for part in parts:
        if part.state in ENDED:
            continue
        what = _part(part)
        if not what:
            return ""
        counts[what] += 1
    if waiting := omitted.get(PartState.WAITING, 0):
        counts[ITS_TURN] += waiting
    ordered = sorted(counts.items(), key=lambda c: (c[0] == ITS_TURN, -c[1], c[0]))
    return SEPARATOR.join(f"{what} ({n:,})" for what, n in ordered)


def _part(part: PartView) -> str:
    """The reason of one part; empty if it makes progress."""
    if part.state == PartState.WAITING:
        return ITS_TURN
    if part.cause in CAUSES:
        return CAUSES[part.cause]
    if part.state == PartState.READY:
        return RETENTION
    if part.state == PartState.VERIFYING:
        return IN_SYNC
    return ""
