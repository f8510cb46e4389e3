"""Kinds of actions against a safety rule that need the approval of a second operator. Values only."""

from __future__ import annotations

from enum import StrEnum


class ProposalKind(StrEnum):
    MOVE_APPROVE = "move.approve"
    MOVE_DELETE_RECORDS = "move.delete_records"
    UNCLEAN_ELECTION = "election.unclean"
    TRANSACTION_ABORT = "transaction.abort"
    TRANSACTION_FENCE = "transaction.fence"
    HALF_COMMIT = "half.commit"
    HALF_ROLLBACK = "half.rollback"


KIND_LABELS = {
    ProposalKind.MOVE_APPROVE: "move against a safety rule",
    ProposalKind.MOVE_DELETE_RECORDS: "deletion of old records before retention",
    ProposalKind.UNCLEAN_ELECTION: "unclean leader election",
    ProposalKind.TRANSACTION_ABORT: "abort of a hanging transaction",
    ProposalKind.TRANSACTION_FENCE: "fencing of an open transaction",
    ProposalKind.HALF_COMMIT: "commit of a half message",
    ProposalKind.HALF_ROLLBACK: "rollback of a half message",
}
