"""Time travel: the cluster at a time of the kept metadata log, and the differences between two times. All choices are in the URL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TypedDict

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from console.history_charts import time_of
from console.texts import gettext_lazy
from console.time_links import BEFORE, input_text
from console.views.shell import page_number, render_page, viewer_required
from console.vocabulary import rejection_text
from controlplane.domain.cluster_difference import DifferenceKind
from controlplane.domain.topic_states import TopicSubset
from controlplane.selectors import cluster_history as selectors
from controlplane.selectors import past_states
from controlplane.services import Rejected


class Tab(StrEnum):
    DIFFERENCE = "difference"
    CHANGES = "changes"
    PARTITIONS = "partitions"
    BROKERS = "brokers"
    CONFIGS = "configs"


TABS = (
    (Tab.DIFFERENCE, gettext_lazy("Difference")),
    (Tab.CHANGES, gettext_lazy("Changes")),
    (Tab.PARTITIONS, gettext_lazy("Partitions")),
    (Tab.BROKERS, gettext_lazy("Brokers")),
    (Tab.CONFIGS, gettext_lazy("Configs")),
)
COMPARING = (Tab.DIFFERENCE, Tab.CHANGES)
STEPS = (
    ("− 1 h", timedelta(hours=-1)),
    ("− 15 min", timedelta(minutes=-15)),
    ("− 1 min", timedelta(minutes=-1)),
    ("+ 1 min", timedelta(minutes=1)),
    ("+ 15 min", timedelta(minutes=15)),
    ("+ 1 h", timedelta(hours=1)),
)
KIND_LABELS = {
    DifferenceKind.BROKER: gettext_lazy("Brokers"),
    DifferenceKind.LEADER: gettext_lazy("Leader changes"),
    DifferenceKind.ISR_SHRINK: gettext_lazy("ISR shrinks"),
    DifferenceKind.ISR_EXPAND: gettext_lazy("ISR expands"),
    DifferenceKind.PLACEMENT: gettext_lazy("Placements"),
    DifferenceKind.TOPIC: gettext_lazy("Topics"),
    DifferenceKind.TOPIC_CONFIG: gettext_lazy("Topic configs"),
    DifferenceKind.BROKER_CONFIG: gettext_lazy("Broker configs"),
    DifferenceKind.ACCESS: gettext_lazy("ACLs, users, quotas"),
    DifferenceKind.FEATURE: gettext_lazy("Features"),
}
BROKER_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Choice:
    """The times and filters of the query string."""

    at: datetime
    since: datetime
    tab: str
    topic: str
    broker: str
    kind: str

    @property
    def broker_id(self) -> int | None:
        return int(self.broker) if self.broker else None


class _ListArguments(TypedDict):
    """The filters of a list and its page, as arguments of the selectors."""

    topic: str
    broker: int | None
    page: int


@viewer_required
def time_travel(request: HttpRequest) -> HttpResponse:
    kept = selectors.kept_time()
    problem = near = None
    found: dict[str, object] = {}
    latest = kept.spans[-1].until if kept.spans else timezone.now()
    choice = Choice(latest, latest - BEFORE, Tab.DIFFERENCE, "", "", "")
    try:
        choice = _choice(request, kept, latest)
        if kept.spans:
            found = _content(choice, page_number(request))
    except selectors.UnknownTime as error:
        problem, near = rejection_text(error), error
    except Rejected as error:
        problem = rejection_text(error)
    context = {
        "kept": kept,
        "choice": choice,
        "at_input": input_text(choice.at),
        "since_input": input_text(choice.since),
        "tab": choice.tab,
        "tabs": TABS,
        "comparing": choice.tab in COMPARING,
        "problem": problem,
        "near_before": input_text(near.before) if near is not None and near.before else "",
        "near_after": input_text(near.after + timedelta(seconds=1)) if near is not None and near.after else "",
        "steps": [(label, input_text(choice.at + step), input_text(choice.since + step)) for label, step in STEPS],
        "gaps": [(a.until, b.since) for a, b in pairwise(kept.spans)],
        **found,
    }
    return render_page(request, "console/time_travel.html", context, nav="time-travel")


def _choice(request: HttpRequest, kept_time: selectors.KeptTime, latest: datetime) -> Choice:
    """Return the two times of the page. Without a time in the request: the latest known time, and 15 minutes before or the start of the kept time. Raises
    Rejected."""
    at = time_of(request, "at") or latest
    since = time_of(request, "since")
    if since is None:
        begin = max((s.since for s in kept_time.spans if s.since <= at), default=at - BEFORE)
        since = max(at - BEFORE, begin)
    tab = request.GET.get("tab", "")
    broker = request.GET.get("broker", "").strip()
    return Choice(
        at,
        since,
        tab if tab in dict(TABS) else TABS[0][0],
        request.GET.get("topic", "").strip(),
        broker if broker.isascii() and broker.isdigit() and len(broker) <= BROKER_DIGITS_MAX else "",
        request.GET.get("kind", ""),
    )


def _content(choice: Choice, page: int) -> dict[str, object]:
    """The tab's rows. Raises Rejected."""
    where = _ListArguments(topic=choice.topic, broker=choice.broker_id, page=page)
    if choice.tab in COMPARING:
        if choice.since == choice.at:
            raise Rejected(_("Choose an earlier time to compare with."), "since")
        each = choice.tab == Tab.CHANGES
        rows = selectors.difference(choice.since, choice.at, each=each, kind=choice.kind, **where)
        kinds = [(k.kind, KIND_LABELS[DifferenceKind(k.kind)], k.count) for k in rows.kinds]
        return {"page": rows, "kinds": kinds, "labels": KIND_LABELS, "more": rows.more}
    moment = selectors.moment(choice.at)
    found: dict[str, object] = {"past": past_states.past_cluster(moment)}
    if choice.tab == Tab.PARTITIONS:
        found["page"] = past_states.past_partitions(
            moment, state=TopicSubset.PROBLEMS if choice.kind == TopicSubset.PROBLEMS else "", **where
        )
    elif choice.tab == Tab.CONFIGS:
        found["page"] = past_states.past_configs(moment, **where)
    return found
