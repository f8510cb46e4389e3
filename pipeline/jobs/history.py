"""The job `history`: the history of metrics, changes and events, from the database to tables of the lake, day by day. Needs no Spark session.

Invariants: a day is copied when the monitor has made averages of a minute of all its values; each row is in the table exactly once. A run that is killed
continues after the last commit. Does not contain: commits (`pipeline.lake.history`), SQL (`pipeline.history_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar

from pyiceberg.manifest import DataFile

from pipeline.history_rows import HistoryRows, RecordedChange
from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake import history, maintenance
from pipeline.lake.tables import Step, no_step
from pipeline.lake.writing import write_arrow
from weir_common.lake_catalog import LakeSettings

SERIES_PER_FILE = 200
"""Series in memory at a time: 288,000 values of a day. A chart reads only the files with its series."""

ROWS_KEPT = timedelta(days=30)
"""The monitor deletes older averages of a minute."""

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class History(Job):
    name: ClassVar[str] = "history"

    snapshot_days: int
    orphan_days: int

    def run(self, context: RunContext) -> None:
        copy = HistoryCopy(context.lake, HistoryRows(context.run.database), context.run.name)
        for batches, _ in enumerate(copy.steps(), 1):
            context.update_status(batches=batches, rows=copy.points + copy.changes)
            context.report(*copy.report())
            if context.stop_requested:
                return
        for table in (history.points_table(context.lake.open()), history.changes_table(context.lake.open())):
            maintenance.expire(table, self.snapshot_days)
            maintenance.delete_unused([table], self.orphan_days)
        context.report(*copy.report())


@dataclass
class HistoryCopy:
    """One copy into the lake. `points`, `changes`: rows committed. `missing`: days whose rows the database had already deleted."""

    lake: LakeSettings
    rows: HistoryRows
    job: str
    clock: Clock = field(default=lambda: datetime.now(UTC))
    step: Step = no_step
    points: int = 0
    changes: int = 0
    days: int = 0
    missing: int = 0

    def steps(self) -> Iterator[None]:
        """Copy everything that is final. One commit per step."""
        while self._day():
            yield
        while self._some_changes():
            yield

    def report(self) -> list[ReportTable]:
        position = history.next_day(history.points_table(self.lake.open()))
        return [
            ReportTable(
                "Copied",
                ("days", "values", "changes and events", "days already deleted", "next day"),
                [(self.days, self.points, self.changes, self.missing, str(position) if position else "")],
            )
        ]

    def _day(self) -> bool:
        """Copy the next day. False if it is not final, or another run has copied it."""
        table = history.points_table(self.lake.open())
        assumed, now = history.position_text(table), self.clock()
        day = due = history.next_day(table) or self.rows.first_day()
        if due is not None and due < (now - ROWS_KEPT).date():
            day = self.rows.first_day(due)
        if day is None or due is None:
            return False
        if not self.rows.is_settled(day, now):
            return False
        files, count = self._files_of(day)
        self.step("written")
        if not history.commit(table, assumed, str(day + timedelta(days=1)), files, self.job, self.step):
            return False
        self.points += count
        self.days += 1
        self.missing += (day - due).days
        return True

    def _files_of(self, day: date) -> tuple[list[DataFile], int]:
        table, series = history.points_table(self.lake.open()), self.rows.series()
        files: list[DataFile] = []
        count = 0
        for first in range(0, len(series), SERIES_PER_FILE):
            some = series[first : first + SERIES_PER_FILE]
            rows = history.points_rows(some, self.rows.chunks(day, some))
            if rows.num_rows:
                files += [file for _, file in write_arrow(table, rows)]
                count += rows.num_rows
        return files, count

    def _some_changes(self) -> bool:
        table = history.changes_table(self.lake.open())
        ids, now = history.last_ids(table), self.clock()
        found: list[RecordedChange] = self.rows.changes(ids.get("change", 0), now)
        found += self.rows.events(ids.get("event", 0), now)
        if not found:
            return False
        after = {**ids, **{row.source: row.id for row in found}}
        files = [file for _, file in write_arrow(table, history.changes_rows(found))]
        self.step("written")
        assumed = history.position_text(table)
        if not history.commit(table, assumed, history.ids_text(after), files, self.job, self.step):
            return False
        self.changes += len(found)
        return True
