"""What a whole move waits for, as a phrase: pure.

Law: it is said only where nothing of the move goes on by itself or is being copied, and it counts what waits; the list of moves shows it, so that no list has to
look at a move's partitions for it. Called by `moves`. Must not come in: the database, clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane import pace
from controlplane.moveparts import COMPARING, ENDED, PartView

RETENTION = "retention"
ITS_TURN = "its turn"
"""Its brokers are busy with other copies, or the move has as many under way as it may."""
IN_SYNC = "new replicas to be in sync"
THROTTLE_GONE = "its throttle to be gone"

CAUSES: Mapping[str, str] = {
    pace.NO_SPACE: "room on a target's disk",
    pace.TARGET_DOWN: "a target that is down",
    pace.SOURCE_DOWN: "a leader",
    pace.THROTTLE: "a wider throttle",
    pace.FETCH_ERROR: "a target that copies nothing",
    pace.CONTROLLER: "a controller",
    pace.REFUSED: "an order that the controller refuses",
    pace.UNFIT: "a retention: its topic keeps everything",
    pace.CUT_DUE: "a cut: its deadline has passed",
}
"""Of pace.CAUSES those with which a copy stands still; one that will not finish goes on."""


def waits_for(parts: Iterable[PartView], rest: Mapping[str, int]) -> str:
    """`retention (12), a target that is down (3)`, the most first, those whose turn it is not at the end; "" where a part is under way, and where all have ended. `rest`: parts by state that
    are not among `parts`."""
    counts: Counter[str] = Counter()
    for part in parts:
        if part.state in ENDED:
            continue
        what = _part(part)
        if not what:
            return ""
        counts[what] += 1
    if waiting := rest.get("waiting", 0):
        counts[ITS_TURN] += waiting
    ordered = sorted(counts.items(), key=lambda c: (c[0] == ITS_TURN, -c[1], c[0]))
    return ", ".join(f"{what} ({n:,})" for what, n in ordered)


def _part(part: PartView) -> str:
    """Empty for one that is under way."""
    if part.state == "waiting":
        return ITS_TURN
    if part.cause in CAUSES:
        return CAUSES[part.cause]
    if part.state == "ready":
        return RETENTION
    if part.state == "verifying" and not part.note.startswith(COMPARING):
        return IN_SYNC
    return ""
