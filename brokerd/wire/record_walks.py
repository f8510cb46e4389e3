"""Selects `record_walk`: the Python source, or the same source compiled with Cython (`compiled`, decision 044)."""

from __future__ import annotations

from typing import Any

from brokerd.wire import record_columns, record_walk
from brokerd.wire.compiled import find_compiled

_used = find_compiled(record_walk) or record_walk
COMPILED = _used is not record_walk
Progress = _used.Progress
walk = _used.walk
_whole: Any = _used if COMPILED else record_columns
batch_is_valid = _whole.batch_is_valid
plain_records = _whole.plain_records
RUNS = None if COMPILED else record_columns.run
"""The argument `runs` of a walk: compiled, a record costs less alone than in a run."""
INVALID = (_used.Invalid, record_walk.Invalid)
"""Exceptions of a walk over unreadable records."""
