"""Features of the cluster (KIP-584): name and level, finalised in the metadata log.

A feature is finalised only if every registered broker can read the log and supports the feature. A level is lowered only by an explicit
downgrade. The level of the metadata log is listed with the features and raised in the same way (`levels`). Does not contain the effect of
a feature.
"""

from __future__ import annotations

from brokerd.cluster.levels import FEATURE, LEVEL_MAX, LEVEL_MIN, Range

TRANSACTION_VERSION = "transaction.version"
FEATURES: dict[str, Range] = {TRANSACTION_VERSION: (0, 2)}
"""{name: (lowest, highest level)} that this program supports. 0 is "not finalised". A new range requires a new level of the metadata log, so that
every broker supports it."""
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
FIXED: dict[str, int] = {SHARE_VERSION: 1, STREAMS_VERSION: 1}
"""{name: level} of features that this program always has. They are not in the metadata log and cannot be changed."""
FEATURES_LEVEL = 4
"""Lowest level of the metadata log that can store finalised features."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def supported_features() -> dict[str, Range]:
    return {FEATURE: (LEVEL_MIN, LEVEL_MAX), **FEATURES, **{name: (level, level) for name, level in FIXED.items()}}


def problem(name: str, level: int, upgrade_type: int, current: int, metadata_level: int) -> str | None:
    """Return the reason why feature `name`, now at level `current`, cannot be finalised at `level` in a metadata log of level `metadata_level`, or None. This
    function is not for the level of the metadata log itself."""
    if name in FIXED:
        return f"{name} is always at {FIXED[name]} and cannot be changed"
    if name not in FEATURES:
        known = ", ".join(supported_features())
        return f"unknown feature {name!r}; known are {known}"
    low, high = FEATURES[name]
    if not low <= level <= high:
        return f"{name} supports levels {low} to {high}, not {level}"
    if metadata_level < FEATURES_LEVEL:
        return f"{name} requires {FEATURE} at level {FEATURES_LEVEL} or higher, it is at {metadata_level}: upgrade {FEATURE} first"
    if level < current and upgrade_type not in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{name} is at {current}: a lower level requires a downgrade request"
    if level > current and upgrade_type != UPGRADE:
        return f"{name} is at {current}: a higher level requires an upgrade request"
    return None
