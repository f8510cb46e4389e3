"""First use, on processes: a small sample of `make cold-starts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cold_starts import cold_starts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def test_the_first_request_to_a_new_process_is_carried_out(tmp_path: Path) -> None:
    """Each start has its own chroot, which does not exist before."""
    assert [a.message for a in cold_starts(tmp_path, 2)] == ["", ""]
