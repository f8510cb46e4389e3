"""The driver's side of an archive: reads the positions of the tables, checks the files that the tasks wrote, commits them.

Invariant: a batch that begins after a table's position is rejected, because the records in between would be lost. One that begins before it is
cut there. Does not contain: streaming queries (`pipeline.jobs.archive_lake`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipeline.lake.tables import Batch, Step, commit, identifier, no_step, positions, publish_dead_letters, topic_table
from pipeline.lake.writing import FileWriter, TopicTarget
from pipeline.offsets import Offsets, Range, put
from pipeline.tables import Contradiction
from weir_common.lake import ValueFormat
from weir_common.lake_catalog import LakeSettings


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A row of `writing.WRITTEN`. `offsets`: (partition, first, last, rows)."""

    topic: str
    is_dead_letters: bool
    file: bytes
    path: str
    offsets: tuple[tuple[int, int, int, int], ...]
    rows: int

    @staticmethod
    def of_row(row: Mapping[str, object]) -> WrittenFile:
        offsets = []
        for part in str(row["offsets"]).split():
            partition, first, last, rows = (int(n) for n in part.split(":"))
            offsets.append((partition, first, last, rows))
        file, rows_total = row["file"], row["rows"]
        assert isinstance(file, bytes | bytearray) and isinstance(rows_total, int)
        return WrittenFile(
            str(row["topic"]), bool(row["is_dead_letters"]), bytes(file), str(row["path"]), tuple(offsets), rows_total
        )


@dataclass
class LakeArchive:
    """Archives `topics` into the lake. One per driver. `rows`, `dead_letters`: committed by this driver."""

    lake: LakeSettings
    job: str
    topics: Sequence[str]
    value_format: ValueFormat = ValueFormat.RAW
    key_buckets: int = 0
    registry_url: str = field(default="", repr=False)
    step: Step = no_step
    rows: int = 0
    dead_letters: int = 0
    _tables: dict[str, Table] = field(default_factory=dict, init=False)

    def open(self) -> Offsets:
        """Create the tables that are absent, finish the last commit of each, and return the positions. Raises Contradiction."""
        catalog = self.lake.open()
        found: Offsets = {}
        for topic in self.topics:
            table = self._tables[topic] = topic_table(catalog, topic, self.key_buckets)
            publish_dead_letters(catalog, topic, table, self.step)
            for partition, offset in positions(table).items():
                put(found, topic, partition, offset)
        return found

    def writer(self) -> FileWriter:
        """The function of the tasks for the next batch."""
        targets = {
            t: TopicTarget(t, self.value_format, self.key_buckets, positions(table))
            for t, table in self._tables.items()
        }
        return FileWriter(self.lake, targets, self.registry_url)

    def commit(self, planned: Sequence[Range], written: Iterable[WrittenFile]) -> int:
        """Commit the files of a batch, one commit per table. `planned`: the offsets that were read. Returns the committed rows. Raises Contradiction."""
        files = list(written)
        committed = 0
        for topic in sorted({r.topic for r in planned}):
            table = self._tables[topic]
            assumed = positions(table)
            ranges = [r for r in clip_ranges(planned, topic, assumed) if r.next > r.first]
            if not ranges:
                continue
            mine = [f for f in files if f.topic == topic]
            check(ranges, mine)
            rows = sum(f.rows for f in mine if not f.is_dead_letters)
            batch = Batch(
                job=self.job,
                ranges=ranges,
                rows=rows,
                files=[pickle.loads(f.file) for f in mine if not f.is_dead_letters],  # noqa: S301 - written by our own task.
                dead_letter_files=[f.path for f in mine if f.is_dead_letters],
            )
            commit(table, batch, assumed, self.step)
            table.refresh()
            publish_dead_letters(self.lake.open(), topic, table, self.step)
            committed += rows
            self.dead_letters += sum(f.rows for f in mine if f.is_dead_letters)
        self.rows += committed
        return committed


def clip_ranges(planned: Sequence[Range], topic: str, present: Mapping[int, int]) -> list[Range]:
    """The planned ranges of the topic from the table's position on. Raises Contradiction for a gap."""
    out = []
    for range_ in planned:
        if range_.topic != topic:
            continue
        position = present.get(range_.partition, range_.first)
        if range_.first > position:
            raise Contradiction(
                f"{topic}-{range_.partition}: the table continues at offset {position}, the batch begins at {range_.first}; "
                "the records in between would be lost"
            )
        out.append(Range(topic, range_.partition, position, max(position, range_.next)))
    return out


def check(ranges: Sequence[Range], files: Sequence[WrittenFile]) -> None:
    """Raises Contradiction if a file has an offset outside its range, or more rows than the range has offsets."""
    planned = {r.partition: r for r in ranges}
    rows = dict.fromkeys(planned, 0)
    for file in files:
        for partition, first, last, count in file.offsets:
            planned_range = planned.get(partition)
            if planned_range is None or first < planned_range.first or last >= planned_range.next:
                raise Contradiction(
                    f"{file.path}: partition {partition} has offsets {first} to {last}, planned was {planned_range}"
                )
            rows[partition] += count
    for partition, count in rows.items():
        planned_range = planned[partition]
        if count > planned_range.next - planned_range.first:
            raise Contradiction(
                f"{planned_range.topic}-{partition}: {count} rows for the {planned_range.next - planned_range.first} offsets from {planned_range.first} on"
            )


def existing_table(catalog: Catalog, name: str) -> Table | None:
    try:
        return catalog.load_table(identifier(name))
    except NoSuchTableError:
        return None
