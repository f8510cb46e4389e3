"""A copy that starts above its leader's log comes back into the ISR by itself (decision 037): with retention where that passes, else begun anew."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.replica import Replica
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


def delete(scene: Scene, broker_id: int) -> int:
    """What lies below START, at this leader; the error code that it answers."""
    body = DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=START)]
            )
        ],
        timeout_ms=1_000,
    )
    answers: list[Any] = []
    scene.client.enter(lambda: scene.client.ask(broker_id, ApiKey.DELETE_RECORDS, 2, body, answers.append))
    scene.cluster.until(lambda: bool(answers), 10, "the answer")
    return int(answers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("seed", [8, 9])
def test_what_is_said_to_be_deleted_stays_so_whoever_of_those_in_sync_leads_next(seed: int) -> None:
    scene = Scene(seed)
    scene.write(*(f"r{i}" for i in range(10)))
    old, new = scene.pair()
    assert delete(scene, old.broker_id) == ErrorCode.NONE
    assert copy(scene, new).log.start_offset == START, "it was told first"
    old.kill()
    scene.until_leads(new.broker_id)
    old.start()
    assert scene.end() == [f"r{i}" for i in range(START, 10)]


def deposed(seed: int, **configs: str) -> tuple[Scene, BrokerNode, BrokerNode]:
    """(scene, who leads now, who led, deleted what its successor still has, and is back). All records but the last are an hour old."""
    settings = {"replica.lag.time.max.ms": str(LAG_MS), "log.retention.check.interval.ms": str(RETENTION_MS)}
    scene = Scene(seed, settings=settings, **configs)
    scene.write(*(f"r{i}" for i in range(9)), age_ms=3_600_000)
    scene.write("r9")
    old, new = scene.pair()
    scene.cluster.until(lambda: copy(scene, new).core.high_watermark == 10, 5, "both to know what is committed")
    scene.pass_ms(RETENTION_MS)
    assert copy(scene, old).log.start_offset == 0, "no segment ends below the young record"
    scene.cluster.network.cut.add((old.name, new.name))
    assert delete(scene, old.broker_id) == ErrorCode.REQUEST_TIMED_OUT, "it may come back"
    assert copy(scene, old).log.start_offset == START
    old.kill()
    scene.cluster.network.cut.clear()
    scene.until_leads(new.broker_id)
    assert copy(scene, new).log.start_offset == 0, "it has heard: nothing is shown"
    old.start()
    scene.cluster.until(
        lambda: scene.leads_now(new) and scene.tp in old.broker.partitions.hosted, 10, "both to be there"
    )
    return scene, new, old


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_deleted_what_its_successor_still_has_is_begun_anew(seed: int) -> None:
    scene, new, old = deposed(seed)
    before, epoch = copy(scene, old), scene.state.leader_epoch
    scene.pass_ms(RETENTION_MS)
    assert scene.state.isr_ids == (new.broker_id,) and copy(scene, old) is before, "retention may pass yet"
    assert scene.end() == [f"r{i}" for i in range(10)], "all of it stands, on both"
    assert copy(scene, old) is not before and copy(scene, old).log.start_offset == 0
    assert scene.state.leader_epoch > epoch, "what it had fetched before counts for nothing"


@pytest.mark.parametrize("seed", [4, 5])
def test_it_stays_as_it_is_where_its_successor_deletes_the_same(seed: int) -> None:
    scene, new, old = deposed(seed)
    before = copy(scene, old)
    scene.pass_ms(LAG_MS)
    assert delete(scene, new.broker_id) == ErrorCode.NONE
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"


@pytest.mark.parametrize("seed", [6, 7])
def test_it_stays_as_it_is_where_retention_allows_its_successor_the_same(seed: int) -> None:
    """Segments of two copies need not end at the same offsets: what one has let go may lie within a segment of the other."""
    scene, _, old = deposed(seed, retention_ms="1800000")
    before = copy(scene, old)
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"
