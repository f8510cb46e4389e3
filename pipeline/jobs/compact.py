"""The job `compact`: maintenance of tables. Spark's tasks merge groups of small files; the driver commits. Does not contain: the choice of files to
merge, expire and delete (`pipeline.lake.maintenance`)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyiceberg.table import Table

from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake import maintenance
from pipeline.lake.archiving import existing_table
from weir_common.lake import dead_letters_of, is_dead_letters
from weir_common.lake_catalog import LakeSettings

GROUPS_PER_COMMIT = 50
"""Groups that one commit replaces: a run that is killed repeats at most these."""

MB = 1_000_000


@dataclass(frozen=True)
class Compact(Job):
    name: ClassVar[str] = "compact"

    tables: list[str]
    target_mb: int
    snapshot_days: int
    orphan_days: int

    def run(self, context: RunContext) -> None:
        rows = []
        catalog = context.lake.open()
        for name in self.tables:
            table = existing_table(catalog, name)
            if table is None:
                raise ValueError(f"the lake has no table {name}")
            related = [table]
            if not is_dead_letters(name) and (dead := existing_table(catalog, dead_letters_of(name))) is not None:
                related.append(dead)
            for each in related:
                if context.stop_requested:
                    break
                merged = self._merge(context, each)
                rows.append((each.name()[-1], *merged, maintenance.expire(each, self.snapshot_days)))
                context.report(
                    ReportTable("Merged", ("table", "files before", "files after", "expired snapshots"), rows)
                )
            count, size = maintenance.delete_unused(related, self.orphan_days)
            context.update_status(batches=len(rows), deleted_files=count, deleted_bytes=size)

    def _merge(self, context: RunContext, table: Table) -> tuple[int, int]:
        """The number of files that were merged, and of the files that they became."""
        groups = maintenance.groups(table, self.target_mb * MB)
        before = after = 0
        for first in range(0, len(groups), GROUPS_PER_COMMIT):
            if context.stop_requested:
                break
            part = groups[first : first + GROUPS_PER_COMMIT]
            frame = context.spark().createDataFrame([(pickle.dumps(g),) for g in part], "group binary")
            found = frame.repartition(len(part)).mapInArrow(_function(context.lake), "group binary").collect()
            merged = [pickle.loads(bytes(row["group"])) for row in found]  # noqa: S301 - written by our own tasks.
            if maintenance.replace(table, merged, context.run.name):
                before += sum(len(g.old) for g in merged)
                after += sum(len(g.new) for g in merged)
        return before, after


def _function(lake: LakeSettings) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return `GroupMerger` as a plain function, because Spark accepts no other callable."""
    merger = maintenance.GroupMerger(lake)
    return lambda batches: merger(batches)
