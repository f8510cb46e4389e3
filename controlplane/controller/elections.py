"""Elections that a client requests (ElectLeaders): the new state of one partition, or Kafka's error code.

Invariants (docs/safety.md section 3): a replica that can prove to have the data is elected before any other replica, for any type of election in the request.
An unclean leader election needs a partition without a leader and without such a replica. Its possible loss is reported.
Does not contain: rows, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.cluster import election, majority
from brokerd.cluster.majority import LogEnd
from brokerd.cluster.model import NO_LEADER, PartitionState
from brokerd.wire.errors import ErrorCode


def elect(
    state: PartitionState,
    broker_epoch: election.BrokerEpochs,
    leadership_disabled: frozenset[int] = frozenset(),
    *,
    min_insync: int,
    unclean: bool,
    log_ends: Mapping[int, LogEnd] | None = None,
) -> tuple[PartitionState | None, ErrorCode]:
    """(the state after the election, NONE), or (None, the error). `leadership_disabled`: demoted brokers. `log_ends`: the reports of a vote."""
    if unclean:
        if state.leader != NO_LEADER:
            return None, ErrorCode.ELECTION_NOT_NEEDED
        if state.voters:
            after = majority.elect_uncleanly(state, log_ends or {}, broker_epoch)
            return (after, ErrorCode.NONE) if after is not None else (None, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        after = election.elect_leader(state, broker_epoch, min_insync=min_insync, unclean=True)
        return (after, ErrorCode.NONE) if after is not None else (None, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    preferred = state.replicas[0]
    if state.leader == preferred:
        return None, ErrorCode.ELECTION_NOT_NEEDED
    in_sync = any(s.broker_id == preferred and broker_epoch(preferred) == s.broker_epoch for s in state.isr)
    if not in_sync or preferred in leadership_disabled:
        return None, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    if state.voters:
        # The vote elects the preferred leader if it has all committed records.
        can = majority.can_elect(state, broker_epoch)
        return (majority.start_vote(state), ErrorCode.NONE) if can else (None, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    after = election.elect_leader(state, broker_epoch, min_insync=min_insync)
    if after is None or after.leader != preferred:
        # An early hand-over prefers a leader with the full history (`election.elect_leader`).
        return None, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return after, ErrorCode.NONE
