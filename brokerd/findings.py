"""Copies of this broker that are not what they should be, for others to see and mend.

Laws: said once when found, and told until the copy is thrown away or (of what mends itself) in sync again; telling decides nothing: a damaged
copy serves on, and whoever mends it sees first that another one is in sync. Called by `partitions`, `followers`, `upkeep`, `scrub`; told through
`net/membership`. Must not come in: files, what is done about it.
"""

from __future__ import annotations

import logging

from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.znodes import CORRUPT, FINDINGS_MAX, Finding

log = logging.getLogger(__name__)


class Findings:
    def __init__(self) -> None:
        self._told: dict[TopicPartition, Finding] = {}
        self.changed = False

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._told

    def add(self, name: str, tp: TopicPartition, kind: str, text: str) -> None:
        """The first word about a copy stands; damage on the disk comes before what mends itself."""
        before = self._told.get(tp)
        if (before is not None and (before.kind == CORRUPT or kind != CORRUPT)) or len(self._told) >= FINDINGS_MAX:
            return
        log.error("%s: %s: %s", name, kind, text)
        self._told[tp] = Finding(tp, kind, text)
        self.changed = True

    def gone(self, tp: TopicPartition) -> None:
        """The copy was thrown away."""
        if self._told.pop(tp, None) is not None:
            self.changed = True

    def settle(self, image: Image, broker_id: int) -> None:
        """What mends itself has done so once the copy is in sync."""
        for tp, finding in list(self._told.items()):
            state = image.partition(tp)
            if finding.kind != CORRUPT and state is not None and broker_id in state.isr_ids:
                self.gone(tp)

    def told(self) -> tuple[Finding, ...]:
        return tuple(sorted(self._told.values(), key=lambda f: f.tp))
