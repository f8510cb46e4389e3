"""Interface between the replicas of a broker and the broker's other components: queries and notifications.

The components are built after the replicas, so an implementation looks them up at each call. Does not contain: an implementation (`runtime`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.replica import Replica


class ReplicaHooks(Protocol):
    # -- fetches of follower replicas --------------------------------------------------------------------------------
    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None: ...

    def unfollow(self, tp: TopicPartition) -> None: ...

    def resume(self, tp: TopicPartition) -> None:
        """The position of the log has become available."""

    # -- coordinators ------------------------------------------------------------------------------------------------
    def on_election(self, topic: str, partition: int, epoch: int, now: Now) -> None:
        """This broker leads the partition. Coordinators load internal topics."""

    def on_resignation(self, topic: str, partition: int, now: Now) -> None:
        """This broker does not lead the partition any more."""

    # -- history replicas --------------------------------------------------------------------------------------------
    def history_changed(self, replica: Replica) -> None:
        """The metadata log has changed a partition with history replicas or a raised log start offset."""

    def retain_history(self, replica: Replica) -> None:
        """Retention has run on a leader's local log: apply it to the records of the history replicas."""

    # -- leadership --------------------------------------------------------------------------------------------------
    def image_is_current(self) -> bool:
        """Return whether the image is known to be current. Without ZooKeeper another leader may have been elected unnoticed."""
        ...

    def confirm_leadership(self, done: Callable[[bool], None]) -> None:
        """Call `done(True)` if the image contains everything that is in the metadata log now, otherwise `done(False)`."""

    # -- failures ----------------------------------------------------------------------------------------------------
    def replica_lost(self, description: str) -> None:
        """A log that was opened before the registration lacks records that may have been acknowledged. `description`: for the log message."""

    def io_error(self) -> None:
        """An I/O error: unflushed data of any file may be lost."""

    def directory_failed(self) -> None:
        """A log directory has failed; its replicas are offline."""
