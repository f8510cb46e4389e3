"""The state and the heartbeat of a Spark driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from console import driver_cells


def test_an_old_report_of_a_driver_that_should_run_shows_its_age() -> None:
    """The page of an archive showed "running" and rows of an hour ago, while no worker read the reports of the driver."""
    now = datetime.now(UTC)
    assert "ago" not in driver_cells.heartbeat(now, True) and "ago" not in driver_cells.heartbeat(None, True)
    old = now - timedelta(minutes=5)
    assert "5 min ago" in driver_cells.heartbeat(old, True)
    assert "ago" not in driver_cells.heartbeat(old, False), "a finished job"


def test_a_running_job_without_reports_has_the_tone_of_a_problem() -> None:
    old = datetime.now(UTC) - timedelta(minutes=5)
    shown = driver_cells.driver_state("running", old, True)
    assert "st-amber" in shown and "running, no heartbeat for 5 min" in shown
    for at, active in ((old, False), (datetime.now(UTC), True), (None, True)):
        assert "heartbeat" not in driver_cells.driver_state("running", at, active)
