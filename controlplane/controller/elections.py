"""Elections that a client asks for (ElectLeaders): what becomes of one partition, with Kafka's verdict.

Laws: who can prove to hold the data leads before anybody who cannot, whatever was asked for; an unclean election is held only where nobody leads and nobody
can prove it (docs/safety.md section 3), and its loss is told. Called by `core`. Must not come in: rows, clocks.
"""

from __future__ import annotations

from brokerd.cluster import election
from brokerd.cluster.model import NO_LEADER, PartitionState

PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED = 80, 83, 84


def held(
    state: PartitionState,
    incarnation: election.Incarnation,
    shunned: frozenset[int] = frozenset(),
    *,
    min_insync: int,
    unclean: bool,
) -> tuple[PartitionState | None, int]:
    """(the state after it, 0), or (None, Kafka's code). `shunned`: brokers that an operator has taken leadership from."""
    if unclean:
        if state.leader != NO_LEADER:
            return None, ELECTION_NOT_NEEDED
        after = election.elected(state, incarnation, min_insync=min_insync, unclean=True)
        return (after, 0) if after is not None else (None, ELIGIBLE_LEADERS_NOT_AVAILABLE)
    preferred = state.replicas[0]
    if state.leader == preferred:
        return None, ELECTION_NOT_NEEDED
    in_sync = any(s.broker_id == preferred and incarnation(preferred) == s.incarnation for s in state.isr)
    if not in_sync or preferred in shunned:
        return None, PREFERRED_LEADER_NOT_AVAILABLE
    after = election.elected(state, incarnation, min_insync=min_insync)
    assert after is not None and after.leader == preferred, "the first of the replicas that is in sync is elected"
    return after, 0
