"""The cases of docs/quota-cases.md. Does not test that a throttled connection is not read: tests/unit/net does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from brokerd.authz.mutations import Mutations
from brokerd.authz.quotas import Quotas
from brokerd.cluster.model import Now
from brokerd.cluster.quota_entities import FETCH, MUTATIONS, PRODUCE, TIME, entity_key
from brokerd.net.request import Request, Session
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.authz.test_quotas import FakeConnection, decode_reply

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "quota-cases.md").read_text()
KINDS = {
    "produce": (PRODUCE, 1_000.0),
    "fetch": (FETCH, 1_000.0),
    "request": (TIME, 10.0),
    "mutations": (MUTATIONS, 1.0),
}


def table(title: str) -> list[tuple[str, str, str, str]]:
    lines = PAGE.partition(f"## {title}")[2].partition("\n## ")[0].splitlines()
    rows = [line for line in lines if line.startswith("|") and not line.startswith(("| quotas", "|---"))]
    return [tuple(cell.strip() for cell in row[1:-1].split("|")) for row in rows]  # type: ignore[misc]


def entity(text: str) -> str:
    words = text.split()
    kinds = {"user": "user", "client": "client-id"}
    return entity_key({kinds[k]: None if v == "*" else v for k, v in zip(words[::2], words[1::2], strict=True)})


@pytest.mark.parametrize(("said", "who", "limit", "because"), table("Which quota applies"))
def test_the_most_specific_quota_applies(said: str, who: str, limit: str, because: str) -> None:
    quotas = Quotas()
    parts = [q.split("=") for q in said.split(";") if q.strip()]
    quotas.set((entity(name), {PRODUCE: float(value)}) for name, value in parts)
    found = quotas.limit(PRODUCE, *who.split("/"))
    assert (str(int(found[1])) if found else "none") == limit, because


class Scene:
    """The quotas of a broker, its clock, and one connection per request."""

    def __init__(self, said: str) -> None:
        self.quotas, self.ms = Quotas(), 100_250
        by_entity: dict[str, dict[str, float]] = {}
        for one in said.split(";"):
            kind, _, name = one.strip().partition(" ")
            key, limit = KINDS[kind]
            by_entity.setdefault(entity(name), {})[key] = limit
        self.quotas.set(by_entity.items())
        self.mutations = Mutations(self.quotas)

    def send_request(
        self, who: str, key: int, version: int, body: Any, response: Any, size: int = 0, spent: float = 0.0
    ) -> str:
        """The throttle time, or whether the response became empty."""
        user, _, client = who.partition("/")
        caller = FakeConnection()
        header = framing.RequestHeader(key, version, 7, client)
        request = Request(caller, None, header, body, Session("PLAINTEXT", f"User:{user}"))  # type: ignore[arg-type]
        self.quotas.watch(request, size, lambda: Now(self.ms, 0), lambda: spent)
        request.reply(response)
        if response is None:
            return str(caller.muted)
        received = decode_reply(caller, key, version)
        assert received.throttle_time_ms == caller.muted, "the reported throttle time is applied"
        return f"empty {caller.muted}" if key == ApiKey.FETCH and not received.responses else str(caller.muted)

    def produces(self, who: str, size: int, acks: int = 1) -> str:
        return self.send_request(
            who, ApiKey.PRODUCE, 9, m.ProduceRequest(acks=acks), m.ProduceResponse() if acks else None, size
        )

    def fetches(self, who: str, size: int) -> str:
        r = m.FetchResponse
        body = m.FetchRequest(replica_id=2 if who == "follower" else -1, max_bytes=50_000_000)
        part = r.PartitionData(partition_index=0, records=b"x" * size)
        return self.send_request(
            who, ApiKey.FETCH, 11, body, r(responses=[r.FetchableTopicResponse(topic="t", partitions=[part])])
        )

    def uses(self, who: str, ms: int) -> str:
        return self.send_request(
            who, ApiKey.HEARTBEAT, 3, m.HeartbeatRequest(), m.HeartbeatResponse(), spent=ms / 1_000
        )

    def creates(self, who: str, count: int, old: bool) -> str:
        user, _, client = who.partition("/")
        caller = FakeConnection()
        header = framing.RequestHeader(ApiKey.CREATE_TOPICS, 7, 7, client)
        request = Request(caller, None, header, m.CreateTopicsRequest(), Session("PLAINTEXT", f"User:{user}"))  # type: ignore[arg-type]
        (may,) = self.mutations.take(request, [count], self.ms, strict=not old)
        request.reply(m.CreateTopicsResponse())
        return str(caller.muted) if may else f"rejected {caller.muted}"


STEP = re.compile(r"(?:\+(\d+) )?(\S+) (produces|fetches|uses|creates) (\d+)( with acks=0)?( with an old version)?")


@pytest.mark.parametrize(
    ("said", "comes", "responses", "because"), table("Throttle time") + table("Partition mutations (KIP-599)")
)
def test_throttle_time_of_a_case(said: str, comes: str, responses: str, because: str) -> None:
    scene, received = Scene(said), []
    for step in comes.split("; "):
        found = STEP.fullmatch(step.strip())
        assert found is not None, step
        later, who, verb, number, silent, old = found.groups()
        scene.ms += int(later or 0)
        if verb == "produces":
            received.append(scene.produces(who, int(number), 0 if silent else 1))
        elif verb == "creates":
            received.append(scene.creates(who, int(number), bool(old)))
        else:
            received.append(getattr(scene, verb)(who, int(number)))
    assert "; ".join(received) == responses, because


def test_the_tables_of_the_document_have_cases() -> None:
    assert len(table("Which quota applies")) >= 12
    assert len(table("Throttle time")) >= 20
    assert len(table("Partition mutations (KIP-599)")) >= 4
