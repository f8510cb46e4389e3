"""Elections that a client asks for: who leads afterwards, what it is told, and what is written down about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from brokerd.cluster import election
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerUp, PartitionChanged, RequestAnswered, TopicCreated, TopicReady
from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, Now, PartitionState, Seat, TopicPartition
from brokerd.cluster.znodes import ELECT, ForwardedRequest, Registration
from controlplane.controller.core import Core
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    ChangeMade,
    Deposed,
    DesiredRead,
    Elected,
    Report,
    Requested,
)

TOPIC = UUID(int=7)
NOW = Now(1_000, 2_000)
ALL = (Seat(1, 101), Seat(2, 102), Seat(3, 103))
LED_BY_2 = PartitionState((1, 2, 3), ALL, 2, 102, 5, 9)
LOST = PartitionState((3, 1, 2), (), NO_LEADER, NO_INCARNATION, 5, 9, last_isr=(3,))
"""Broker 3 was the last in sync, and its tail is lost or away."""


class Desk:
    """A controller in office over partitions 0, 1, .. of topic `t`, with `alive` brokers."""

    def __init__(self, *states: PartitionState, alive: tuple[int, ...] = (1, 2, 3)) -> None:
        self.image = Image(cluster_id="c")
        for b in alive:
            self.image.apply(BrokerUp(b, 100 + b, f"u{b}", "h", b))
        self.image.apply(TopicCreated(TOPIC, "t", 1, {}, len(states)))
        for i, state in enumerate(states):
            self.image.apply(PartitionChanged(TOPIC, i, state))
        self.image.apply(TopicReady(TOPIC))
        self.core = Core(self.image, "c")
        self.core.handle(Elected(1), NOW)
        self.core.handle(DesiredRead(complete=True), NOW)
        self.core.handle(
            BrokersSeen({b: Registration(b, f"u{b}", "h", b, None, None, True, None, 100 + b) for b in alive}), NOW
        )
        self.core.in_flight = False

    def ask(self, *partitions: int, unclean: bool = False, topic: str = "t") -> list[Any]:
        payload = {
            "unclean": unclean,
            "principal": "User:ann",
            "topics": [{"name": topic, "partitions": [*partitions]}],
        }
        return self.core.handle(Requested(ForwardedRequest("r", 1, 101, ELECT, payload)), NOW)

    def appended(self, effects: list[Any]) -> list[Any]:
        """What the log gets is applied; the effects of that."""
        (append,) = [e for e in effects if isinstance(e, AppendMetadata)]
        for record in append.records:
            self.image.apply(record)
        self.image.validate()
        return self.core.handle(Appended(append.records), NOW)

    def leader(self, index: int = 0) -> int:
        state = self.image.partition(TopicPartition(TOPIC, index))
        assert state is not None
        return state.leader


def verdicts(effects: list[Any]) -> list[list[int]]:
    (append,) = [e for e in effects if isinstance(e, AppendMetadata)]
    assert append.answered == ("r",)
    (answer,) = [r for r in append.records if isinstance(r, RequestAnswered)]
    (result,) = answer.result["results"]
    return list(result["partitions"])


def test_the_preferred_leader_returns_at_once_and_the_answer_is_in_the_entry_of_its_effect() -> None:
    desk = Desk(LED_BY_2, replace(LED_BY_2, leader=1, leader_incarnation=101), replace(LED_BY_2, isr=ALL[1:]))
    effects = desk.ask(0, 1, 2, 9)
    assert verdicts(effects) == [[0, 0], [1, 84], [2, 80], [9, 3]]
    desk.appended(effects)
    assert [desk.leader(i) for i in range(3)] == [1, 1, 2]
    state = desk.image.topics[TOPIC].partitions[0]
    assert (state.leader_incarnation, state.leader_epoch, state.isr) == (101, 6, ALL)


def test_a_leader_that_is_on_its_way_out_is_not_elected() -> None:
    desk = Desk(LED_BY_2)
    desk.core.leaving.add(ALL[0])
    assert verdicts(desk.ask(0)) == [[0, 80]]


def test_an_unclean_election_is_held_where_nobody_leads_and_its_loss_is_told() -> None:
    desk = Desk(LOST, LED_BY_2, alive=(1, 2))
    effects = desk.ask(0, 1, unclean=True)
    assert verdicts(effects) == [[0, 0], [1, 84]]
    (report,) = [e for e in effects if isinstance(e, Report)]
    assert (report.kind, report.text) == (
        "unclean", "broker 1 was elected uncleanly; what only [3] held is lost",
    )  # fmt: skip
    desk.appended(effects)
    state = desk.image.topics[TOPIC].partitions[0]
    assert (state.leader, state.isr, state.last_isr, state.leader_epoch) == (1, (Seat(1, 101),), (), 6)


def test_nobody_alive_is_nobody_elected() -> None:
    desk = Desk(LOST, alive=())
    assert verdicts(desk.ask(0, unclean=True)) == [[0, 83]]


def test_a_preferred_election_loses_nothing_where_nobody_leads() -> None:
    desk = Desk(LOST, alive=(1, 2))
    assert verdicts(desk.ask(0)) == [[0, 80]]
    assert desk.leader() == NO_LEADER


def test_who_is_still_being_added_is_elected_uncleanly_only_after_everybody_else() -> None:
    state = replace(LOST, replicas=(4, 1, 3), adding=(4,), removing=(3,))
    elected = election.elected(state, {1: 101, 4: 104}.get, min_insync=1, unclean=True)
    assert elected is not None
    assert elected.leader == 1
    alone = election.elected(state, {4: 104}.get, min_insync=1, unclean=True)
    assert alone is not None
    assert alone.leader == 4


def test_a_change_row_is_asked_for_once_the_log_has_the_election() -> None:
    desk = Desk(LED_BY_2)
    effects = desk.ask(0)
    assert not [e for e in effects if isinstance(e, ChangeMade)]
    (made,) = [e for e in desk.appended(effects) if isinstance(e, ChangeMade)]
    assert made == ChangeMade(
        "User:ann at broker 1", "topic.elect-preferred", "topic", "t", before={"0": 2}, after={"0": 1}
    )
    assert not [e for e in desk.core.handle(Appended(()), NOW) if isinstance(e, ChangeMade)], "told once"


def test_a_refusal_leaves_a_row_too_and_nothing_to_do_leaves_none() -> None:
    desk = Desk(replace(LED_BY_2, isr=ALL[1:]))
    (made,) = [e for e in desk.appended(desk.ask(0)) if isinstance(e, ChangeMade)]
    assert made.refused
    assert "80" in made.detail
    desk = Desk(replace(LED_BY_2, leader=1, leader_incarnation=101))
    assert not [e for e in desk.appended(desk.ask(0)) if isinstance(e, ChangeMade)]


def test_what_a_deposed_controller_did_not_get_into_the_log_leaves_no_row() -> None:
    desk = Desk(LED_BY_2)
    desk.ask(0)
    desk.core.handle(Deposed("another acts"), NOW)
    desk.core.handle(Elected(3), NOW)
    assert not [e for e in desk.core.handle(Appended(()), NOW) if isinstance(e, ChangeMade)]
