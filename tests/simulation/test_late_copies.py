"""A replica whose log starts above its leader's log start enters the ISR again automatically (decision 037): by retention if that applies, else by a reset."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.replication.replica import Replica
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DeleteRecordsRequest
from tests.simulation.cluster import BrokerNode
from tests.simulation.scene import Scene

LAG_MS, RETENTION_MS = 1_500, 3_000
START = 6


def copy(scene: Scene, node: BrokerNode) -> Replica:
    replica = node.broker.partitions.hosted[scene.tp]
    assert isinstance(replica, Replica)
    return replica


def delete(scene: Scene, broker_id: int, timeout_ms: int = 5_000) -> int:
    """Deletes the records below START at this leader. Returns the error code of the response.

    A follower reports a flushed log start with its next fetch, so two fetches of up to 500 ms may wait before the response."""
    body = DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=START)]
            )
        ],
        timeout_ms=timeout_ms,
    )
    answers: list[Any] = []
    scene.client.enter(lambda: scene.client.send_request(broker_id, ApiKey.DELETE_RECORDS, 2, body, answers.append))
    scene.cluster.until(lambda: bool(answers), 10, "the answer")
    return int(answers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("seed", [8, 9])
def test_deleted_records_stay_deleted_under_every_in_sync_successor(seed: int) -> None:
    scene = Scene(seed)
    scene.write(*(f"r{i}" for i in range(10)))
    old, new = scene.pair()
    assert delete(scene, old.broker_id) == ErrorCode.NONE
    assert copy(scene, new).log.start_offset == START, "the deletion must reach the follower before the response"
    old.kill()
    scene.until_leads(new.broker_id)
    old.start()
    assert scene.end() == [f"r{i}" for i in range(START, 10)]


def deposed(seed: int, **configs: str) -> tuple[Scene, BrokerNode, BrokerNode]:
    """(scene, the leader now, the former leader: it deleted records that its successor still has, and has restarted). All records but the last are an hour old."""
    settings = {"replica.lag.time.max.ms": str(LAG_MS), "log.retention.check.interval.ms": str(RETENTION_MS)}
    scene = Scene(seed, settings=settings, **configs)
    scene.write(*(f"r{i}" for i in range(9)), age_ms=3_600_000)
    scene.write("r9")
    old, new = scene.pair()
    scene.cluster.until(lambda: copy(scene, new).core.high_watermark == 10, 5, "both to know what is committed")
    scene.pass_ms(RETENTION_MS)
    assert copy(scene, old).log.start_offset == 0, "no segment ends below the young record"
    scene.cluster.network.cut.add((old.name, new.name))
    assert delete(scene, old.broker_id, 1_000) == ErrorCode.REQUEST_TIMED_OUT, "it may come back"
    assert copy(scene, old).log.start_offset == START
    old.kill()
    scene.cluster.network.cut.clear()
    scene.until_leads(new.broker_id)
    assert copy(scene, new).log.start_offset == 0, "the follower knows of the deletion: the scenario did not happen"
    old.start()
    scene.cluster.until(
        lambda: scene.leads_now(new) and scene.tp in old.broker.partitions.hosted, 10, "both to be there"
    )
    return scene, new, old


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_replica_that_deleted_more_than_its_successor_is_reset(seed: int) -> None:
    scene, new, old = deposed(seed)
    before, epoch = copy(scene, old), scene.state.leader_epoch
    scene.pass_ms(RETENTION_MS)
    assert scene.state.isr_ids == (new.broker_id,) and copy(scene, old) is before, "retention may pass yet"
    assert scene.end() == [f"r{i}" for i in range(10)], "a record is missing on a replica"
    assert copy(scene, old) is not before and copy(scene, old).log.start_offset == 0
    assert scene.state.leader_epoch > epoch, "fetches from before the reset still count"


@pytest.mark.parametrize("seed", [4, 5])
def test_the_replica_is_kept_if_its_successor_deletes_the_same_records(seed: int) -> None:
    scene, new, old = deposed(seed)
    before = copy(scene, old)
    scene.pass_ms(LAG_MS)
    assert delete(scene, new.broker_id) == ErrorCode.NONE
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"


@pytest.mark.parametrize("seed", [6, 7])
def test_the_replica_is_kept_if_retention_deletes_the_same_on_its_successor(seed: int) -> None:
    """Segments of two replicas need not end at the same offsets: the deletion on one may end within a segment of the other."""
    scene, _, old = deposed(seed, retention_ms="1800000")
    before = copy(scene, old)
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"
