"""A program's success report is checked against the log where the log can be read. Does not start a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerd.wire import records
from brokerd.wire.records import Record
from tests.foreign.features import BY_ID
from tests.foreign.runs import KILL_AFTER, Program, find_unshown_claims


class Logs:
    """Log directories of a local cluster: one batch per list of values."""

    def __init__(self, *batches: list[str], compression: int = 0, producer_id: int = 7) -> None:
        out, offset = bytearray(), 0
        for values in batches:
            rs = [Record(offset + i, 0, None, v.encode(), ()) for i, v in enumerate(values)]
            batch = bytearray(
                records.build(
                    rs, compression=compression, producer_id=producer_id, producer_epoch=0, base_sequence=offset
                )
            )
            records.stamp(batch, 0, offset, 0)
            out += batch
            offset += len(values)
        self._data = bytes(out)

    def data(self, topic: str) -> list[bytes]:
        return [self._data]


def describe_logs(logs: Any, feature: str, acked: list[str] | None = None) -> str:
    return find_unshown_claims(logs, BY_ID[feature], "t", acked or [])


NUMBERS = [str(i) for i in range(500)]


def test_a_codec_is_confirmed_when_every_batch_has_it() -> None:
    assert describe_logs(Logs(["a"], ["b"], compression=1), "gzip") == ""
    assert "compressions [0]" in describe_logs(Logs(["a"]), "gzip")


def test_an_idempotent_producer_is_detected_by_id_and_sequence() -> None:
    assert describe_logs(Logs(NUMBERS), "idempotent") == ""
    assert describe_logs(Logs(NUMBERS, producer_id=-1), "idempotent") == "batches without a producer id"
    assert "501 records in the log, 500 different" in describe_logs(Logs(NUMBERS, ["499"]), "idempotent")


def test_acknowledged_records_must_be_in_the_log() -> None:
    enough = NUMBERS[: 2 * KILL_AFTER]
    assert describe_logs(Logs(NUMBERS), "leader-killed", enough) == ""
    assert describe_logs(Logs(NUMBERS[1:]), "leader-killed", enough) == "1 acknowledged records are lost"
    assert "doubled" in describe_logs(Logs(NUMBERS, NUMBERS[:1]), "leader-killed", enough)
    assert describe_logs(Logs(NUMBERS, NUMBERS[:1], producer_id=-1), "leader-killed", enough) == "", (
        "at least once is what it promised"
    )
    assert "were acknowledged only" in describe_logs(Logs(NUMBERS), "leader-killed", enough[:10])


def test_a_log_with_one_segment_does_not_prove_reads_across_segments() -> None:
    assert describe_logs(Logs(["a"]), "from-start") == "the log has 1 segments only"


@pytest.mark.timeout(60)
def test_the_output_and_the_exit_of_a_program_are_read(tmp_path: Path) -> None:
    program = Program(["sh", "-c", "echo begin x; echo yes x; sleep 60"], {}, tmp_path / "log")
    assert [program.lines.get(timeout=30), program.lines.get(timeout=30)] == ["begin x", "yes x"]
    program.end()
    assert program.lines.get(timeout=30) is None


def test_the_targets_of_a_route_hold_the_matching_records_once_and_in_order() -> None:
    def values(numbers: tuple[int, ...]) -> list[str]:
        return [f"v{n}" for n in numbers]

    class Targets:
        def __init__(self, **changed: list[str]) -> None:
            held = {b.target: values(b.matching) for b in BY_ID["routes"].route} | {"": ["v0"]}
            self._logs = {
                "t" + name: Logs(v) for name, v in {**held, **{f"-{k}": v for k, v in changed.items()}}.items()
            }

        def data(self, topic: str) -> list[bytes]:
            return self._logs[topic].data(topic)

    right = values((0, 3, 6, 9))
    assert describe_logs(Targets(), "routes") == ""
    for wrong in ([*right, "v9"], right[1:], [*right, "v1"], right[::-1]):
        assert describe_logs(Targets(key=wrong), "routes") == f"the log of -key holds {wrong}"
