"""The content of each committed offset of a log: a record, a record of an aborted or of an ongoing transaction, or a marker. Computed from the batches of an
`Archive` in the simplest way, independently of the product's index of aborted transactions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from brokerd.cluster.model import TopicPartition
from brokerd.replication.replica import Replica
from brokerd.wire import end_transaction_marker, records
from tests.simulation.archive import Archive


class Content(Enum):
    RECORD = "a record"
    ABORTED = "an aborted record"
    UNDECIDED = "a record of an ongoing transaction"
    MARKER = "a marker"
    UNCOMMITTED = "above the high watermark"


@dataclass(slots=True)
class PartitionContents:
    """`read`: bytes of the archive that are interpreted. `ongoing`: {producer id: its undecided offsets}."""

    read: int = 0
    contents: dict[int, Content] = field(default_factory=dict)
    ongoing: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


class DecidedRecords:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._partitions: defaultdict[TopicPartition, PartitionContents] = defaultdict(PartitionContents)

    def content(self, replica: Replica, offset: int) -> Content:
        """Return the content that the leader shows at an offset now."""
        self.archive.take(replica.tp, replica)
        return self.records_of(replica.tp).get(offset, Content.UNCOMMITTED)

    def records_of(self, tp: TopicPartition) -> dict[int, Content]:
        """{offset: content} of every committed offset."""
        known = self._partitions[tp]
        data = self.archive.batches_since(tp, known.read)
        for at, header in records.batches(data):
            offsets = range(header.base_offset, header.last_offset + 1)
            known.read += header.size
            if header.is_control:
                marker = end_transaction_marker.marker_of(data, at, header)
                decided = Content.RECORD if marker is not None and marker.commit else Content.ABORTED
                known.contents.update(dict.fromkeys(known.ongoing.pop(header.producer_id, ()), decided))
                known.contents.update(dict.fromkeys(offsets, Content.MARKER))
            elif header.is_transactional:
                known.ongoing[header.producer_id] += offsets
                known.contents.update(dict.fromkeys(offsets, Content.UNDECIDED))
            else:
                known.contents.update(dict.fromkeys(offsets, Content.RECORD))
        return known.contents
