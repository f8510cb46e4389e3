"""Broker settings for tiered storage with a folder as the store, with intervals that are short enough for tests."""

from __future__ import annotations

from pathlib import Path


def tiered_settings(folder: Path, *, copy_ms: int, retention_ms: int) -> dict[str, str]:
    """Creates the store in `folder`. `copy_ms`, `retention_ms`: intervals of the copies and of the retention checks in milliseconds."""
    store = folder / "store"
    store.mkdir()
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.url": f"file://{store}",
        "remote.log.manager.task.interval.ms": str(copy_ms),
        "log.retention.check.interval.ms": str(retention_ms),
    }
