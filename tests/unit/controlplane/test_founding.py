"""Who begins a cluster: a controller over an empty ZooKeeper, and only if the database is of none. Else it is a loss, not a beginning."""

from __future__ import annotations

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, Record
from brokerd.cluster.model import Now
from controlplane.controller.core import Core
from controlplane.controller.events import AppendMetadata, BrokersSeen, DesiredRead, Elected, Event, Report, Tick


class Desk:
    def __init__(self, image: Image | None = None) -> None:
        self.core = Core(image or Image(), "drawn")
        self.reports: list[Report] = []

    def hear(self, event: Event) -> list[Record]:
        effects = self.core.handle(event, Now(0, 0))
        self.reports += [e for e in effects if isinstance(e, Report)]
        return [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]


def test_a_cluster_begins_once_the_database_has_said_that_it_is_of_none() -> None:
    desk = Desk()
    assert desk.hear(Elected(1)) == [] and desk.hear(BrokersSeen({})) == []
    assert desk.hear(Tick()) == [] and desk.reports == [], "an answer that is still to come is no news for anybody"
    assert desk.hear(DesiredRead(complete=True))[0] == ClusterCreated("drawn")


def test_an_empty_zookeeper_under_a_database_of_a_cluster_is_told_and_left_empty() -> None:
    desk = Desk()
    desk.hear(Elected(1))
    desk.hear(DesiredRead(complete=True, cluster_id="old"))
    assert desk.hear(BrokersSeen({})) == []
    assert [r.subject for r in desk.reports] == ["cluster"] and "rebuild" in desk.reports[0].text
    assert desk.hear(Tick()) == [] and len(desk.reports) == 1, "not at every tick"


def test_each_term_asks_anew() -> None:
    desk = Desk()
    desk.hear(Elected(1))
    desk.hear(DesiredRead(complete=True))
    desk.hear(Elected(2))
    assert desk.hear(BrokersSeen({})) == []


def test_a_log_that_is_there_needs_no_database() -> None:
    image = Image(seq=1, cluster_id="old", metadata_version=1)
    desk = Desk(image)
    desk.hear(Elected(1))
    desk.hear(BrokersSeen({}))
    assert desk.reports == []
