"""Repeats the dialogs that long runs have found, and a short run of new dialogs with a fixed seed."""

from __future__ import annotations

import json
import logging
import random
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.wire import framing, records
from brokerd.wire import messages as m
from tests.fuzz.choices import Choices
from tests.fuzz.dialog_run import ClientConnection, run_dialog
from tests.fuzz.dialogs import dialog_of, frame, truth
from tests.fuzz.reader import clients_logs, unreadable
from tests.fuzz.stage import Stage, client_context, make_pki

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
FRESH = 60


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def stage(pki: Path) -> Iterator[Stage]:
    one = Stage(pki)
    yield one
    one.close()


@pytest.fixture(scope="module")
def context(pki: Path) -> ssl.SSLContext:
    return client_context(pki)


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_a_found_problem_does_not_return(stage: Stage, context: ssl.SSLContext, path: Path) -> None:
    outcome = run_dialog(stage, json.loads(path.read_text())["steps"], context)
    assert outcome.problems == {}
    assert [unreadable(r, 0) for r in clients_logs(stage.broker) if unreadable(r, 0)] == []


def test_new_fuzz_cases_find_no_problem(stage: Stage, context: ssl.SSLContext) -> None:
    rng = random.Random(20_261_121)
    found = {}
    for _ in range(FRESH):
        found |= run_dialog(stage, dialog_of(rng.randbytes(rng.choice((30, 120, 400)))), context).problems
    assert found == {}
    assert [unreadable(r, 0) for r in clients_logs(stage.broker) if unreadable(r, 0)] == []


def test_the_test_cluster_responds_and_injected_faults_are_detected(stage: Stage, context: ssl.SSLContext) -> None:
    """Without this check the tests above could not fail."""
    versions = "0000000a00120000000000050000"
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        outcome = run_dialog(stage, [["open", protocol], ["send", 0, truth().hex()], ["send", 0, versions]], context)
        assert outcome.problems == {} and outcome.response_bytes > 300, (
            "the handshake, the authentication and the versions were not answered"
        )

    def raise_key_error(request: object) -> None:
        raise KeyError("a fault of ours")

    stage.broker.dispatch.handlers[18] = raise_key_error  # type: ignore[assignment]
    logging.disable(logging.NOTSET)
    outcome = run_dialog(stage, [["open", "PLAINTEXT"], ["send", 0, versions]], context)
    assert [name.split()[0] for name in outcome.problems] == ["KeyError"]

    def allocate_too_much(request: object) -> None:
        bytearray(b"x") * (700 << 20)

    stage.broker.dispatch.handlers[18] = allocate_too_much  # type: ignore[assignment]
    outcome = run_dialog(stage, [["open", "PLAINTEXT"], ["send", 0, versions]], context)
    assert list(outcome.problems) == ["too much memory"]


def test_the_same_bytes_give_the_same_fuzz_case() -> None:
    data = random.Random(7).randbytes(300)
    assert dialog_of(data) == dialog_of(data)
    assert Choices(b"\x00\x05").getrandbits(16) == 5


def test_a_request_with_too_many_items_is_rejected(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROOM_RECORDS", 5)
    data = records.build([records.Record(i, 1, b"k", b"v") for i in range(4)], compression=4)
    r = m.ProduceRequest
    parts = [r.PartitionProduceData(index=i, records=data) for i in range(2)]
    for topic, codes in (("compacted", [0, 10]), ("packed", [0, 10]), ("plain", [0, 10])):
        client = ClientConnection(stage, "PLAINTEXT", None)
        client.send(
            frame(0, 9, r(acks=-1, timeout_ms=1_000, topic_data=[r.TopicProduceData(name=topic, partition_data=parts)]))
        )
        stage.run_iteration(5)
        reported = framing.decode_response(0, 9, memoryview(client.sock.recv(65_536))[4:])[1]
        assert [p.error_code for p in reported.responses[0].partition_responses] == codes, topic
        client.close()
