"""Checks whether the log directories of a broker are those that it wrote last, and whether their logs are complete.

Each run of a broker process is a *life*. It has a random id, which is written to `meta.properties` before the broker registers. The tail of a
log is intact only if three conditions are true: the directory is not a copy (`storage/running_marker`); its last life ended with a clean
shutdown, or the same kernel still runs and has the page cache; its last life is the last one that the metadata log has recorded for this broker.
Pure functions. Does not contain file access, elections or registrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

LIVES_MAX = 50
"""Maximum number of stored lives that the metadata log has not recorded yet. A broker that restarts repeatedly without ZooKeeper adds one per start."""

Meta = Mapping[str, str]


class DirectoryDoubt(StrEnum):
    """The reason why a broker may lack records that it has acknowledged. The values are stored in registrations and in the metadata log and never change."""

    UNCLEAN = "unclean-shutdown"
    NOTED = "loss-noted"
    MISSING = "directory-missing"
    EMPTY = "directory-empty"
    REATTACHED = "volume-reattached"
    COPIED = "directory-copied"
    MIXED = "directories-mixed"
    OLDER = "directory-older"

    @property
    def elsewhere(self) -> bool:
        """True if another directory may still contain all records. Then this replica is not elected cleanly, even as the last one."""
        return self in (DirectoryDoubt.COPIED, DirectoryDoubt.MIXED, DirectoryDoubt.OLDER)


_RESTORE = (
    "If the newest directory still exists, stop the broker, restore that directory and start the broker. Otherwise wait until other in-sync replicas "
    "are back. A partition that stays offline after that can be led only by an unclean leader election, which loses what this directory lacks."
)
REASONS = {
    DirectoryDoubt.UNCLEAN: (
        "The machine stopped without a clean shutdown of the broker: records that were not flushed may be lost.",
        "",
    ),
    DirectoryDoubt.NOTED: (
        "There was an I/O error, or a log ends before its high watermark, and the metadata log had not recorded this loss yet.",
        "",
    ),
    DirectoryDoubt.MISSING: (
        "A log directory or a partition directory with records is missing.",
        "Check log.dirs and the mounts of its file systems.",
    ),
    DirectoryDoubt.EMPTY: (
        "The data directory is empty, and the metadata log knows an earlier start of this broker.",
        "If the disk was not replaced intentionally, check log.dirs and the mounts of its file systems.",
    ),
    DirectoryDoubt.REATTACHED: (
        "After an unclean stop, the file system of a log directory is mounted from another device.",
        "",
    ),
    DirectoryDoubt.COPIED: (
        "A log directory is a copy (a restored backup or a copied directory) that was not closed by a clean shutdown.",
        _RESTORE,
    ),
    DirectoryDoubt.MIXED: (
        "The log directories are from different times: at least one of them is an older copy.",
        _RESTORE,
    ),
    DirectoryDoubt.OLDER: (
        "The data directory is an older copy: the metadata log knows a later start of this broker, which it does not contain.",
        _RESTORE,
    ),
}
"""Cause and remedy of each doubt. The remedy is empty if no action is necessary."""


def explain_doubt(code: str) -> tuple[str, str]:
    """(cause, remedy) for the value of a DirectoryDoubt. The value of a newer program is returned unchanged."""
    return REASONS[DirectoryDoubt(code)] if code in set(DirectoryDoubt) else (code, "")


def may_be_elsewhere(code: str) -> bool:
    """`DirectoryDoubt.elsewhere` for a value. True for the value of a newer program, to be safe."""
    return bool(code) and (code not in set(DirectoryDoubt) or DirectoryDoubt(code).elsewhere)


def most_severe_doubt(doubts: Iterable[DirectoryDoubt | None]) -> DirectoryDoubt | None:
    """The most severe doubt of several directories."""
    return min((d for d in doubts if d is not None), key=lambda d: not d.elsewhere, default=None)


# -- several directories -------------------------------------------------------------------------------------------------
def directory_lives(meta: Meta) -> dict[str, str]:
    """{directory id: last life} of all directories of the broker, as stored in one of them."""
    pairs = (item.partition("=") for item in meta.get("life.directories", "").split(",") if item)
    return {directory: life for directory, _, life in pairs}


def find_newest(metas: Sequence[Meta]) -> Meta | None:
    """The directory that contains the last life of every other directory. None if the directories are from different times.

    A directory that was unavailable in the last life is listed with its own older life. A start that crashed while it wrote has stored its
    life in some directories only. That life was not recorded in the metadata log, so the other directories lack nothing.
    """
    for meta in metas:
        named, unrecorded = directory_lives(meta), lives(meta)
        if all(
            (life := o.get("life.id")) == named.get(o.get("directory.id", "")) or life in unrecorded
            for o in metas
            if o is not meta
        ):
            return meta
    return None


def lives(meta: Meta) -> tuple[str, ...]:
    """The last life, followed by the earlier lives that the broker has not yet seen recorded in the metadata log."""
    return tuple(i for i in (meta.get("life.id", ""), *meta.get("life.before", "").split(",")) if i)


def limit_lives(before: Sequence[str]) -> tuple[str, ...]:
    """At most LIVES_MAX lives. The oldest is kept because the metadata log has recorded it."""
    return tuple(before) if len(before) <= LIVES_MAX else (*before[: LIVES_MAX - 1], before[-1])


def continues_recorded_life(recorded: str, life: str, before: Iterable[str]) -> bool:
    """Return whether this life continues the life that the metadata log recorded last. `recorded` is empty if no life is recorded yet."""
    return not recorded or recorded == life or recorded in before
