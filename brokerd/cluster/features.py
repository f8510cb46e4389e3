"""What the cluster as a whole has agreed to (KIP-584): features by name and level, finalised in the metadata log.

Laws: a feature is finalised only in a log whose level every registered broker reads, and whose programs know it; nothing is lowered unless that was asked for in so many words.
The log's own level is shown beside them and raised the same way (`levels`). Called by the controller's core and by ApiVersions. Must not come in: what a feature does.
"""

from __future__ import annotations

from brokerd.cluster.levels import FEATURE, LEVEL_MAX, LEVEL_MIN, Range

TRANSACTION_VERSION = "transaction.version"
FEATURES: dict[str, Range] = {TRANSACTION_VERSION: (0, 2)}
"""By name the levels that this program serves; 0 is "not finalised". A later range needs a later level of the log, so that nobody is left behind."""
FEATURES_LEVEL = 4
"""Of the log: from here on it may say what is finalised."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def supported() -> dict[str, Range]:
    return {FEATURE: (LEVEL_MIN, LEVEL_MAX), **FEATURES}


def problem(name: str, level: int, upgrade_type: int, current: int, metadata_level: int) -> str | None:
    """Why feature `name`, at `current`, cannot be finalised at `level` in a log of `metadata_level`, or None. (Not for the log's own level.)"""
    if name not in FEATURES:
        known = ", ".join(supported())
        return f"there is no feature {name!r} here; there are {known}"
    low, high = FEATURES[name]
    if not low <= level <= high:
        return f"{name} has levels {low} to {high}, not {level}"
    if metadata_level < FEATURES_LEVEL:
        return f"{name} needs level {FEATURES_LEVEL} of {FEATURE}, which is at {metadata_level}: raise that first"
    if level < current and upgrade_type not in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{name} is at {current}; to lower it has to be asked for as a downgrade"
    if level > current and upgrade_type != UPGRADE:
        return f"{name} is at {current}; to raise it has to be asked for as an upgrade"
    return None
