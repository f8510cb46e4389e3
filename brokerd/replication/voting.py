"""This broker's part in the votes of partitions with majority acknowledgements (decision 102): log ends for the controller, leader change records.

Invariants: a report is made after the partition's state without a leader was applied, so the log does not change until the vote has ended. A leader
appends a leader change record before it commits anything, unless a record of its epoch is in the log already.
Does not contain: the count of a vote (`brokerd.cluster.majority`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from brokerd.cluster.model import NO_LEADER, Now, TopicPartition
from brokerd.cluster.znodes import LogEndReport
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.wire import records

LEADER_CHANGE_KEY = struct.pack(">hh", 0, 2)
"""Version 0, type LEADER_CHANGE of Kafka's control records. Clients skip control records."""
_LEADER_CHANGE = struct.Struct(">hi")


class Voting:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._reports: dict[TopicPartition, tuple[Replica, int]] = {}
        """The replicas that take part in a vote, with the leader epoch of the vote."""

    def partition_changed(self, replica: Replica) -> None:
        """Add, change or remove the report of this replica after a new partition state was applied."""
        state = replica.core.state
        votes = state is not None and bool(state.voters) and state.leader == NO_LEADER
        if not votes:
            if self._reports.pop(replica.tp, None) is not None:
                self._outbox.mark_changed(OutboxEntry.LOG_ENDS)
            return
        report = replica, replica.core.leader_epoch
        if self._reports.get(replica.tp) != report:
            self._reports[replica.tp] = report
            self._outbox.mark_changed(OutboxEntry.LOG_ENDS)

    def log_ends(self) -> list[LogEndReport]:
        """The reports of all replicas that can be read."""
        return [
            LogEndReport(*tp, epoch, replica.log.epochs.latest, replica.log.end_offset)
            for tp, (replica, epoch) in self._reports.items()
            if replica.offline_reason is None
            and replica.core.leader_epoch == epoch
            and replica.core.role is Role.OFFLINE
        ]

    @staticmethod
    def append_leader_change(replica: Replica, now: Now, fail: Callable[[Replica, BaseException], None]) -> bool:
        """Append the leader change record if this leader needs one. Its value has the version and the leader of Kafka's LeaderChangeMessage. Returns
        whether it was appended: not on a full disk, then the next call tries again. `fail` is called after an I/O error."""
        core, log = replica.core, replica.log
        if not replica.leads or core.state is None or not core.state.voters or log.end_offset > core.epoch_start:
            return False
        value = _LEADER_CHANGE.pack(0, core.broker_id)
        data = records.build([records.Record(0, now.wall_ms, LEADER_CHANGE_KEY, value)], control=True)
        try:
            log.append(bytearray(data), list(records.batches(data)), core.leader_epoch, now)
        except DiskFull as full:
            replica.set_append_problem(str(full))
            return False
        except DiskFailed as e:
            fail(replica, e)
            return False
        replica.set_append_problem(None)
        return True
