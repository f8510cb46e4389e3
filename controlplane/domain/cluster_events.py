"""Events of the cluster that the monitor observes: starts and ends of brokers, elections. Pure.

An event is the difference of two observed states. The first state after an unknown one gives no event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.alert_phrases import AlertPhrase
from weir_common.phrases import Phrase, Value, number_of, sentence

NAMES_MAX = 3
"""Maximum number of partitions that the text of an election names. The others are only counted."""


class ClusterEventKind(StrEnum):
    BROKER_REGISTERED = "broker_registered"
    BROKER_DOWN = "broker_down"
    BROKER_UNCLEAN_START = "broker_unclean_start"
    CONTROLLER_ELECTED = "controller_elected"
    CONTROLLER_LOST = "controller_lost"
    LEADERS_CHANGED = "leaders_changed"
    ZOOKEEPER_LOST = "zookeeper_lost"
    ZOOKEEPER_BACK = "zookeeper_back"


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """`subject`: id of a broker or controller, "" for other events."""

    kind: ClusterEventKind
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """`life`: id of a registration."""

    alive: bool
    life: str


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """`before` and `after`: broker ids, None for no leader."""

    partition: str
    before: int | None
    after: int | None


def broker_events(before: Mapping[int, BrokerLife], now: Mapping[int, BrokerLife]) -> list[ObservedEvent]:
    """Events of brokers that registered or went down. A broker that is not in `before` has registered for the first time, unless `before` is empty."""
    found = []
    for broker_id, life in sorted(now.items()):
        old = before.get(broker_id)
        if old == life or not before:
            continue
        if not life.alive:
            if old is not None and old.alive:
                found.append(ObservedEvent(ClusterEventKind.BROKER_DOWN, str(broker_id), _down_text(broker_id)))
        elif old is None or not old.alive or old.life != life.life:
            found.append(
                ObservedEvent(ClusterEventKind.BROKER_REGISTERED, str(broker_id), _registration_text(broker_id, old))
            )
    return found


def _down_text(broker_id: int) -> str:
    return sentence("Broker {broker} went down: it was stopped, crashed or lost ZooKeeper.", broker=broker_id)


def _registration_text(broker_id: int, before: BrokerLife | None) -> str:
    if before is None:
        return sentence("Broker {broker} registered.", broker=broker_id)
    if before.alive:
        return sentence("Broker {broker} restarted.", broker=broker_id)
    return sentence("Broker {broker} registered again.", broker=broker_id)


def unclean_start_event(broker_id: int) -> ObservedEvent:
    """The event of a broker that started and had not shut down cleanly before."""
    text = sentence(
        "Broker {broker} started after an unclean shutdown: it was killed, it crashed or its machine stopped.",
        broker=broker_id,
    )
    return ObservedEvent(ClusterEventKind.BROKER_UNCLEAN_START, str(broker_id), text)


def leader_events(changes: Iterable[LeaderChange]) -> list[ObservedEvent]:
    """One event for all leader changes of one observation, with their number and the old and new leaders."""
    found = sorted(changes, key=lambda c: c.partition)
    if not found:
        return []
    routes = Counter((_broker(c.before), _broker(c.after)) for c in found)
    shown = [
        sentence("{before} → {after}: {count}", before=old, after=new, count=n)
        for (old, new), n in routes.most_common(NAMES_MAX)
    ]
    rest = len(found) - NAMES_MAX
    names: Value = [c.partition for c in found[:NAMES_MAX]]
    if rest > 0:
        names = Phrase(AlertPhrase.AND_MORE, {"names": names, "rest": f"{rest:,}"})
    partitions = number_of(len(found), *AlertPhrase.PARTITIONS)
    text = sentence(
        "Leader election for {partitions} ({names}). {changes}.", partitions=partitions, names=names, changes=shown
    )
    return [ObservedEvent(ClusterEventKind.LEADERS_CHANGED, "", text)]


def _broker(broker_id: int | None) -> str:
    return sentence("no leader") if broker_id is None else sentence("broker {broker}", broker=broker_id)


def controller_events(
    before: tuple[int | None, int | None] | None, now: tuple[int | None, int | None]
) -> list[ObservedEvent]:
    """Each state is (controller id, controller epoch). `before` None: not known."""
    if before is None or before == now:
        return []
    controller_id, epoch = now
    if controller_id is None:
        if before[0] is None:
            return []
        return [
            ObservedEvent(
                ClusterEventKind.CONTROLLER_LOST,
                str(before[0]),
                sentence("Controller {controller} is not active.", controller=before[0]),
            )
        ]
    text = sentence("Controller {controller} is active, epoch {epoch}.", controller=controller_id, epoch=epoch)
    return [ObservedEvent(ClusterEventKind.CONTROLLER_ELECTED, str(controller_id), text)]


def zookeeper_events(before: bool | None, connected: bool) -> list[ObservedEvent]:
    if before is None or before == connected:
        return []
    if connected:
        return [ObservedEvent(ClusterEventKind.ZOOKEEPER_BACK, "", sentence("ZooKeeper responds again."))]
    return [ObservedEvent(ClusterEventKind.ZOOKEEPER_LOST, "", sentence("ZooKeeper does not respond."))]
