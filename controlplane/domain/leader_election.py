"""Elections of preferred leaders: the verdict for a partition, that is, whether an election would change the leader, or why not.

The verdict is computed from observed rows. The controller decides by the same rules on its own state.
Does not contain: unclean leader elections (`services.overrides`), requests (`clients.leader_elections`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from weir_common.phrases import sentence


class ElectionVerdict(StrEnum):
    """electable: the preferred replica would become the leader. preferred_leads: it is already the leader. The other values are reasons why it cannot become
    the leader."""

    ELECTABLE = "electable"
    PREFERRED_LEADS = "preferred_leads"
    NO_LEADER = "no_leader"
    BROKER_OFFLINE = "broker_offline"
    LEADERSHIP_DISABLED = "leadership_disabled"
    NOT_IN_ISR = "not_in_isr"
    HANDING_OVER = "handing_over"


BLOCKED = tuple(v for v in ElectionVerdict if v not in (ElectionVerdict.ELECTABLE, ElectionVerdict.PREFERRED_LEADS))

VERDICT_TEXTS: dict[ElectionVerdict, str] = {
    ElectionVerdict.ELECTABLE: "Broker {preferred} becomes the leader.",
    ElectionVerdict.PREFERRED_LEADS: "Broker {preferred} is the leader already.",
    ElectionVerdict.NO_LEADER: "The partition has no leader. It gets one when a replica that has all records is available again.",
    ElectionVerdict.BROKER_OFFLINE: "Broker {preferred} is down.",
    ElectionVerdict.LEADERSHIP_DISABLED: "Broker {preferred} is demoted. Restore its leadership first.",
    ElectionVerdict.NOT_IN_ISR: "The replica on broker {preferred} is not in the ISR.",
    ElectionVerdict.HANDING_OVER: "A move hands the partition over. Its leader is chosen when the move ends.",
}


@dataclass(frozen=True, slots=True)
class ElectablePartition:
    """A partition as far as the election of its preferred leader depends on it. `handing_over`: a reassignment with an early hand-over runs."""

    leader: int | None
    replicas: Sequence[int]
    isr: Collection[int]
    handing_over: bool = False

    @property
    def preferred(self) -> int:
        return self.replicas[0]


def election_verdict(partition: ElectablePartition, live: Collection[int], demoted: Collection[int]) -> ElectionVerdict:
    """`live`: brokers that are up. `demoted`: brokers whose leadership is disabled."""
    preferred = partition.preferred
    if partition.leader is None:
        return ElectionVerdict.NO_LEADER
    if partition.leader == preferred:
        return ElectionVerdict.PREFERRED_LEADS
    if preferred not in live:
        return ElectionVerdict.BROKER_OFFLINE
    if preferred in demoted:
        return ElectionVerdict.LEADERSHIP_DISABLED
    if preferred not in partition.isr:
        return ElectionVerdict.NOT_IN_ISR
    return ElectionVerdict.HANDING_OVER if partition.handing_over else ElectionVerdict.ELECTABLE


def verdict_text(verdict: ElectionVerdict, preferred: int) -> str:
    return sentence(VERDICT_TEXTS[verdict], preferred=str(preferred))
