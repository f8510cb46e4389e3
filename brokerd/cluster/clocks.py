"""The clocks of the operating system, read as one `Now`. Only event loops read them; every other module gets a `Now` as an argument."""

from __future__ import annotations

import time

from brokerd.cluster.model import Now


def read_clocks() -> Now:
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)
