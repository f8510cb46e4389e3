"""Elections of preferred leaders: outcomes, read-back, rejections, audit."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.clients import leader_elections as client
from controlplane.clients.connection import Declined, NoResponse
from controlplane.models import Change
from controlplane.services import Rejected
from controlplane.services import leader_elections as services
from tests.unit.controlplane.election_responses import Elections, electing
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"actor": "alice", "comment": "after the restart"}


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> Elections:
    return electing(monkeypatch, World())


def outcomes(found: services.PreferredElection) -> dict[str, tuple[str, int | None]]:
    return {f"{r.topic}-{r.index}": (r.outcome, r.leader) for r in found.rows}


def test_electable_partitions_are_elected_and_read_back(responses: Elections) -> None:
    found = services.elect_preferred_leaders("orders", **ALICE)
    assert responses.requests == [[("orders", 0), ("orders", 1)]], "a blocked partition is not requested"
    assert outcomes(found) == {
        "orders-0": ("confirmed", 1),
        "orders-1": ("confirmed", 3),
        "orders-2": ("refused", 2),
    }
    assert (found.outcome, found.confirmed, found.refused, found.unknown) == ("confirmed", 2, 1, 0)
    change = Change.objects.get(pk=found.change_id)
    assert (change.verb, change.object_name, change.actor, change.outcome) == (
        "topic.elect_preferred",
        "orders",
        "alice",
        "confirmed",
    )
    assert (change.before, change.after) == ({"orders-0": 2, "orders-1": 2}, {"orders-0": 1, "orders-1": 3})
    assert change.comment == "after the restart" and "not in the ISR" in change.detail


def test_an_election_that_is_not_needed_is_unchanged(responses: Elections) -> None:
    found = services.elect_preferred_leaders("orders", 3, **ALICE)
    assert (found.outcome, found.unchanged, responses.requests) == ("unchanged", 1, [])
    responses.codes[("orders", 0)] = ErrorCode.ELECTION_NOT_NEEDED
    assert outcomes(services.elect_preferred_leaders("orders", 0, **ALICE)) == {"orders-0": ("unchanged", 1)}
    assert [c.outcome for c in Change.objects.all()] == ["unchanged", "unchanged"]


def test_without_any_electable_partition_the_election_is_rejected(responses: Elections) -> None:
    for place, reason in (
        (("orders", 2), "orders-2: The replica on broker 1 is not in the ISR"),
        (("none",), "Topic 'none' does not exist"),
        (("orders", 9), "Partition orders-9 does not exist"),
        (("", 0), "Name the topic"),
    ):
        with pytest.raises(Rejected, match=reason):
            services.elect_preferred_leaders(*place, **ALICE)  # type: ignore[arg-type]
    assert responses.requests == []
    assert [(c.verb, c.outcome) for c in Change.objects.all()] == [("topic.elect_preferred", "refused")] * 4


def test_the_controller_may_reject_a_part(responses: Elections) -> None:
    responses.codes[("orders", 0)] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    responses.codes[("orders", 1)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = services.elect_preferred_leaders("orders", **ALICE)
    assert (found.outcome, found.refused) == ("refused", 3)
    responses.codes, responses.error = {}, Declined("cluster authorization failed")
    found = services.elect_preferred_leaders("orders", **ALICE)
    assert found.outcome == "refused" and "cluster authorization failed" in found.rows[0].reason


def test_silence_is_an_unknown_outcome(responses: Elections) -> None:
    responses.error = NoResponse("it is frozen")
    found = services.elect_preferred_leaders("orders", **ALICE)
    assert (found.outcome, found.unknown, found.refused) == ("unknown", 2, 1)
    assert outcomes(found)["orders-0"] == ("unknown", None)
    responses.error, responses.missing = None, {("orders", 0)}
    responses.codes[("orders", 1)] = ErrorCode.REQUEST_TIMED_OUT
    assert services.elect_preferred_leaders("orders", **ALICE).unknown == 2
    assert {c.outcome for c in Change.objects.all()} == {"unknown"}


def test_a_leader_that_is_not_read_back_is_unknown(responses: Elections) -> None:
    responses.frozen = {("orders", 0)}
    found = services.elect_preferred_leaders("orders", **ALICE)
    assert outcomes(found)["orders-0"] == ("unknown", 2) and outcomes(found)["orders-1"] == ("confirmed", 3)
    assert "broker 2 was read back as the leader" in found.rows[0].reason
    responses.frozen, responses.read_error = set(), NoResponse("it is frozen")
    found = services.elect_preferred_leaders("orders", 0, **ALICE)
    assert outcomes(found) == {"orders-0": ("unknown", None)} and "could not be read back" in found.rows[0].reason


def test_a_large_election_is_requested_in_parts(responses: Elections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PARTITIONS_PER_REQUEST", 1)
    found = services.elect_preferred_leaders(**ALICE)
    assert responses.requests == [[("orders", 0)], [("orders", 1)]] and found.confirmed == 2
    assert Change.objects.get().object_name == services.ALL_TOPICS
