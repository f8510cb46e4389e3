"""Offset resets on a whole local cluster with real clients: reset, read back, undo, a commit in between, an active group, removal of a member.
Kafka's admin client verifies the committed offsets, not the tested API.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
TOPIC, PARTITIONS, RECORDS = "orders", 3, 600
WIDE = 1_000
Offsets = dict[tuple[str, int], tuple[int, int | None, str | None]]
"""(offset, leader epoch, metadata) of each partition with a committed offset"""


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        devcluster.topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        devcluster.fill(TOPIC, RECORDS)
        yield devcluster
    finally:
        devcluster.end()


def commit(devcluster: DevCluster, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({**devcluster.client, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    finally:
        consumer.close()


def committed_offsets(devcluster: DevCluster, group: str) -> Offsets:
    requested = [ConsumerGroupTopicPartitions(group)]
    found = devcluster.admin.list_consumer_group_offsets(requested, require_stable=True)[group].result(30)
    return {
        (tp.topic, tp.partition): (tp.offset, tp.leader_epoch, tp.metadata)
        for tp in found.topic_partitions
        if tp.offset >= 0
    }


def end_offsets(devcluster: DevCluster, topic: str = TOPIC) -> dict[int, int]:
    consumer = Consumer({**devcluster.client, "group.id": "ends"})
    try:
        return {i: consumer.get_watermark_offsets(TopicPartition(topic, i), timeout=20)[1] for i in range(PARTITIONS)}
    finally:
        consumer.close()


def preview(devcluster: DevCluster, group: str, target: str, **more: Any) -> Any:
    return devcluster.post("offset-resets", {"group_id": group, "target": target, **more})


def apply(devcluster: DevCluster, reset_id: int, **more: Any) -> tuple[int, Any]:
    return devcluster.call("POST", f"offset-resets/{reset_id}/apply", {"comment": "test", **more})


def offsets_only(found: Offsets) -> dict[tuple[str, int], int]:
    return {key: value[0] for key, value in found.items()}


class Member:
    """A consumer that stays in the group and commits nothing by itself."""

    def __init__(self, devcluster: DevCluster, group: str, **settings: Any) -> None:
        self.has: list[int] = []
        self.assignments = 0
        self._stop = threading.Event()
        options = {**devcluster.client, "group.id": group, "enable.auto.commit": False, **settings}
        self._thread = threading.Thread(target=self._run, args=(options,))
        self._thread.start()
        wait_for(lambda: len(self.has) == PARTITIONS, "an assignment")

    def _run(self, options: dict[str, Any]) -> None:
        consumer = Consumer(options)

        def on_assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.has = [tp.partition for tp in partitions]
            self.assignments += 1

        consumer.subscribe([TOPIC], on_assign=on_assigned, on_lost=lambda *lost: self.has.clear())
        while not self._stop.is_set():
            consumer.poll(0.1)
        consumer.close()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_reset_is_previewed_applied_read_back_and_undone_byte_for_byte(devcluster: DevCluster) -> None:
    end = end_offsets(devcluster)
    commit(
        devcluster,
        "undone",
        TopicPartition(TOPIC, 0, 50, metadata="batch 7 \u00fc", leader_epoch=0),
        TopicPartition(TOPIC, 1, end[1]),
    )
    before = committed_offsets(devcluster, "undone")
    assert before[TOPIC, 0] == (50, 0, "batch 7 \u00fc")
    made = preview(devcluster, "undone", "earliest", topics=[TOPIC])
    by_index = {p["partition"]: p for p in made["partitions"]}
    assert {i: (p["now"], p["after"], p["replayed"], p["log_end"]) for i, p in by_index.items()} == {
        0: (50, 0, 50, end[0]),
        1: (end[1], 0, end[1], end[1]),
        2: (None, 0, None, end[2]),
    }
    assert committed_offsets(devcluster, "undone") == before, "a preview writes nothing"
    status, done = apply(devcluster, made["row"]["id"])
    assert (status, done["row"]["state"], done["row"]["can"]) == (200, "applied", ["undo"]), done["row"]
    assert offsets_only(committed_offsets(devcluster, "undone")) == {(TOPIC, i): 0 for i in range(PARTITIONS)}
    assert apply(devcluster, made["row"]["id"])[0] == 409, "a reset is applied one time"

    undo = devcluster.post(f"offset-resets/{made['row']['id']}/undo", {})
    assert {p["partition"]: p["after"] for p in undo["partitions"]} == {0: 50, 1: end[1], 2: None}
    status, done = apply(devcluster, undo["row"]["id"])
    assert (status, done["row"]["state"]) == (200, "applied"), done["row"]
    assert committed_offsets(devcluster, "undone") == before
    verbs = [
        (c["verb"], c["outcome"])
        for c in devcluster.get("changes?object_name=undone")["rows"]
        if c["verb"].startswith("group.")
    ]
    assert verbs[0] == ("group.undo_reset", "confirmed") and verbs[-1] == ("group.reset_offsets", "confirmed")


def test_offsets_of_time_shift_file_group_and_offset(devcluster: DevCluster) -> None:
    end = end_offsets(devcluster)
    later = int(time.time() * 1000)
    devcluster.topic("timed", partitions=1, replication_factor=1)
    devcluster.fill("timed", 10)
    time.sleep(1.1)  # the two fills must differ in milliseconds
    middle = int(time.time() * 1000)
    devcluster.fill("timed", 10)
    commit(devcluster, "source", TopicPartition(TOPIC, 0, 11), TopicPartition(TOPIC, 1, 12))
    commit(devcluster, "shapes", *(TopicPartition(TOPIC, i, 40) for i in range(PARTITIONS)))

    def previewed_offsets(target: str, group: str = "shapes", **more: Any) -> dict[int, Any]:
        found = preview(devcluster, group, target, **more)
        return {p["partition"]: p["problem"] or (p["after"], p["limited"]) for p in found["partitions"]}

    assert previewed_offsets("time", "clock", topics=["timed"], time_ms=middle) == {0: (10, "")}
    assert previewed_offsets("time", topics=["timed"], time_ms=later - 3_600_000) == {0: (0, "")}
    assert previewed_offsets("time", topics=["timed"], time_ms=later + 3_600_000) == {0: (20, "")}
    assert previewed_offsets("shift", shift=-15) == dict.fromkeys(range(PARTITIONS), (25, ""))
    assert previewed_offsets("shift", shift=10**12, topics=[TOPIC])[1] == (end[1], "log_end")
    assert previewed_offsets("offset", offset=10**15, partitions=[{"topic": TOPIC, "partition": 2}]) == {
        2: (end[2], "log_end")
    }
    assert previewed_offsets("group", source_group="source") == {0: (11, ""), 1: (12, "")}
    assert previewed_offsets(
        "group", source_group="source", topics=[TOPIC], partitions=[{"topic": TOPIC, "partition": 2}]
    ) == {
        0: (11, ""),
        1: (12, ""),
        2: "no_source_offset",
    }
    file = [{"topic": TOPIC, "partition": 1, "offset": 33}, {"topic": TOPIC, "partition": 99, "offset": 1}]
    assert previewed_offsets("file", offsets=file) == {1: (33, ""), 99: "no_partition"}
    status, rejected = devcluster.call(
        "POST", "offset-resets", {"group_id": "shapes", "target": "earliest", "topics": ["absent"]}
    )
    assert (status, rejected["field"]) == (400, "topics")


def test_a_commit_after_the_preview_is_rejected_with_the_difference(devcluster: DevCluster) -> None:
    commit(devcluster, "raced", TopicPartition(TOPIC, 0, 5), TopicPartition(TOPIC, 1, 6))
    made = preview(devcluster, "raced", "latest")
    commit(devcluster, "raced", TopicPartition(TOPIC, 1, 7))
    status, rejected = apply(devcluster, made["row"]["id"])
    assert status == 409 and f"{TOPIC}-1: 6 -> 7" in rejected["detail"], rejected
    assert offsets_only(committed_offsets(devcluster, "raced")) == {(TOPIC, 0): 5, (TOPIC, 1): 7}
    row = devcluster.get(f"offset-resets/{made['row']['id']}")["row"]
    assert (row["state"], row["cause"]) == ("previewed", "changed")
    assert row["differences"] == [{"topic": TOPIC, "partition": 1, "expected": 6, "found": 7}]
    assert apply(devcluster, preview(devcluster, "raced", "latest")["row"]["id"])[0] == 200


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_is_rejected_or_waited_for(devcluster: DevCluster, protocol: str) -> None:
    group = f"active-{protocol}"
    commit(devcluster, group, *(TopicPartition(TOPIC, i, 20) for i in range(PARTITIONS)))
    member = Member(devcluster, group, **{"group.protocol": protocol})
    try:
        made = preview(devcluster, group, "earliest")
        status, rejected = apply(devcluster, made["row"]["id"])
        assert status == 409 and "active" in rejected["detail"], rejected
        assert devcluster.get(f"offset-resets/{made['row']['id']}")["row"]["cause"] == "active"
        deletion = preview(devcluster, group, "delete", topics=[TOPIC])
        assert apply(devcluster, deletion["row"]["id"])[0] == 409, "offsets of a subscribed topic"
        status, waiting = apply(devcluster, made["row"]["id"], wait_minutes=10)
        assert (status, waiting["row"]["state"]) == (202, "waiting")
        cancelled = preview(devcluster, group, "latest")
        assert apply(devcluster, cancelled["row"]["id"], wait_minutes=10)[1]["row"]["state"] == "waiting"
        stopped = devcluster.post(f"offset-resets/{cancelled['row']['id']}/cancel", {})
        assert stopped["row"]["state"] == "cancelled"
        assert offsets_only(committed_offsets(devcluster, group)) == {(TOPIC, i): 20 for i in range(PARTITIONS)}
    finally:
        member.leave()

    def finished_row() -> Any:
        row = devcluster.get(f"offset-resets/{made['row']['id']}")["row"]
        return row["finished_at"] and row

    assert wait_for(finished_row, "the waiting reset")["state"] == "applied"
    assert offsets_only(committed_offsets(devcluster, group)) == {(TOPIC, i): 0 for i in range(PARTITIONS)}


def test_the_command_line_shows_a_preview_and_writes_with_execute(devcluster: DevCluster) -> None:
    commit(devcluster, "by-command", TopicPartition(TOPIC, 0, 5), TopicPartition(TOPIC, 1, 6))
    arguments = ("offsets", "reset", "--group", "by-command", "--to-earliest", "--topic", f"{TOPIC}:0")
    assert "Nothing was written" in devcluster.manage(*arguments)
    assert offsets_only(committed_offsets(devcluster, "by-command")) == {(TOPIC, 0): 5, (TOPIC, 1): 6}
    row = json.loads(devcluster.manage(*arguments, "--execute", "--json", "--comment", "test"))["row"]
    assert offsets_only(committed_offsets(devcluster, "by-command")) == {(TOPIC, 0): 0, (TOPIC, 1): 6}
    devcluster.manage("offsets", "undo", str(row["id"]), "--execute")
    assert offsets_only(committed_offsets(devcluster, "by-command")) == {(TOPIC, 0): 5, (TOPIC, 1): 6}


def test_deleted_offsets_are_restored_by_an_undo(devcluster: DevCluster) -> None:
    commit(devcluster, "deleted", TopicPartition(TOPIC, 0, 5, metadata="kept"), TopicPartition(TOPIC, 2, 6))
    before = committed_offsets(devcluster, "deleted")
    made = preview(devcluster, "deleted", "delete", topics=[TOPIC])
    assert apply(devcluster, made["row"]["id"])[1]["row"]["state"] == "applied"
    assert committed_offsets(devcluster, "deleted") == {}
    undo = devcluster.post(f"offset-resets/{made['row']['id']}/undo", {})
    assert apply(devcluster, undo["row"]["id"])[1]["row"]["state"] == "applied"
    assert committed_offsets(devcluster, "deleted") == before


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_removed_member_gives_up_its_partitions(devcluster: DevCluster, protocol: str) -> None:
    group = f"removed-{protocol}"
    member = Member(devcluster, group, **{"group.protocol": protocol})
    try:

        def ids() -> list[str]:
            described = devcluster.admin.describe_consumer_groups([group])[group].result(30)
            return [m.member_id for m in described.members]

        (only,) = ids()
        body = {"group_id": group, "member_id": only, "comment": "test"}
        assert devcluster.call("POST", "member-removals", {**body, "member_id": "other"})[0] == 400
        assert devcluster.call("POST", "member-removals", body)[0] == 204
        wait_for(lambda: member.assignments >= 2, "the consumer to join again")
    finally:
        member.leave()


def test_a_preview_of_a_thousand_partitions_costs_few_requests(devcluster: DevCluster) -> None:
    devcluster.topic("wide", partitions=WIDE, replication_factor=1)
    wait_for(lambda: len(devcluster.leaders("wide")) == WIDE, "leaders", 120)
    commit(devcluster, "wide", *(TopicPartition("wide", i, 0) for i in range(WIDE)))
    made = preview(devcluster, "wide", "time", time_ms=1)
    assert (made["row"]["partitions"], made["row"]["problems"]) == (WIDE, 0)
    # Metadata, FindCoordinator, OffsetFetch, and ListOffsets of 3 timestamps to each of 3 leaders. Before: two requests for the type of the group.
    assert made["row"]["requests"] <= 2 + 3 + 3 * 3
    file = [{"topic": "wide", "partition": i, "offset": 0} for i in range(WIDE)]
    assert preview(devcluster, "fresh", "file", offsets=file)["row"]["changes"] == WIDE
    made = preview(devcluster, "fresh", "earliest", topics=["wide"])
    assert apply(devcluster, made["row"]["id"])[1]["row"]["state"] == "applied"
    assert len(committed_offsets(devcluster, "fresh")) == WIDE
