"""A changed topic setting in the metadata log applies to the next record, without a restart or a segment roll."""

from __future__ import annotations

import pytest

from brokerd.apis.batch_inspection import inspect
from brokerd.cluster.metadata import TopicConfigChanged
from brokerd.cluster.model import Now
from brokerd.storage import cleaner
from brokerd.wire import records
from brokerd.wire.compression import COMPRESSION_NAMES, NONE
from brokerd.wire.records import Record
from brokerd.wire.steps import run_now
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness


class Topic(Harness):
    def set_configs(self, **configs: str) -> None:
        record = TopicConfigChanged(TP.topic_id, 2, {k.replace("_", "."): v for k, v in configs.items()})
        self.image.apply(record)
        self.replica_manager.apply(self.image, [record], self.now)

    def write(self, *, size: int = 100, timestamp: int = 2_000_000) -> int:
        """Append a batch with the checks of Produce. Returns the offset."""
        data = bytearray(records.build([Record(0, timestamp, b"k", bytes(size))]))
        headers = records.check(data)
        problem = self.replica.config.size_problem(headers[0][1].size)
        if problem is not None:
            raise ValueError(problem)
        found = run_now(inspect(data, headers, self.replica.config, records.UnpackBudget(), self.now.wall_ms))
        if found.rejected is not None:
            raise ValueError(found.rejected.message)
        data, headers = found.data, found.headers
        offset = self.replica.log.append(data, headers, 0, self.now).base_offset
        self.replica_manager.on_appended(self.replica, self.now)
        return offset

    @property
    def newest(self) -> records.BatchHeader:
        return list(self.replica.log.headers(self.replica.log.end_offset - 1))[-1]


@pytest.fixture
def topic() -> Topic:
    topic = Topic(SimDisk())
    for _ in range(10):
        topic.write()
    return topic


def test_segment_bytes(topic: Topic) -> None:
    assert len(topic.replica.log.segments) == 1
    topic.set_configs(segment_bytes="500")
    topic.write()
    assert len(topic.replica.log.segments) == 2


def test_retention_by_size_and_by_time(topic: Topic) -> None:
    topic.set_configs(segment_bytes="500")
    for _ in range(10):
        topic.write()
    topic.log_maintenance.retain(topic.now)
    assert topic.replica.log.start_offset == 0
    topic.set_configs(segment_bytes="500", retention_bytes="600")
    topic.log_maintenance.retain(topic.now)
    assert 0 < topic.replica.log.start_offset < 20
    topic.set_configs(segment_bytes="500", retention_ms="1000")
    topic.now = Now(topic.now.mono_ms, topic.now.wall_ms + 2_000)
    topic.log_maintenance.retain(topic.now)
    assert topic.replica.log.start_offset == 20


def test_compression(topic: Topic) -> None:
    assert topic.newest.compression == NONE
    topic.set_configs(compression_type="zstd")
    topic.write()
    assert COMPRESSION_NAMES[topic.newest.compression] == "zstd"
    topic.set_configs(compression_type="producer")
    topic.write()
    assert topic.newest.compression == NONE


def test_flushing(topic: Topic) -> None:
    assert topic.replica.core.high_watermark == 10 and not topic.replica_manager.unflushed
    topic.set_configs(flush_messages="1")
    topic.write()
    assert topic.replica.core.high_watermark == 10, "the acknowledgement waits for the flush"
    topic.run_until_idle()
    assert topic.replica.core.high_watermark == 11
    topic.write()
    topic.set_configs()
    assert topic.replica.core.high_watermark == 12, "acknowledgements no longer wait for the flush"


def test_timestamps(topic: Topic) -> None:
    topic.write(timestamp=5)
    topic.set_configs(message_timestamp_before_max_ms="1000")
    with pytest.raises(ValueError, match=r"timestamp\.before"):
        topic.write(timestamp=5)
    topic.set_configs(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1000")
    topic.write(timestamp=5)
    assert topic.newest.max_timestamp == topic.now.wall_ms and topic.newest.attributes & records.TIMESTAMP_TYPE


def test_the_largest_batch(topic: Topic) -> None:
    topic.set_configs(max_message_bytes="150")
    with pytest.raises(ValueError, match=r"max\.message\.bytes is 150"):
        topic.write(size=200)


def test_cleanup(topic: Topic) -> None:
    topic.set_configs(segment_bytes="500")
    topic.write()
    topic.write()
    assert cleaner.plan(topic.replica.log, topic.now, 12) is None
    topic.set_configs(segment_bytes="500", cleanup_policy="compact")
    assert cleaner.plan(topic.replica.log, topic.now, 12) is not None
