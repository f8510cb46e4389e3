"""Topics: list, one topic with its partitions, configs, consumer groups and changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console import exports
from console.config_groups import GroupedRows, grouped_configs
from console.history_charts import page_charts
from console.panels import lazy
from console.texts import gettext_lazy
from console.views.shell import list_options, not_found, render_page, viewer_required
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.topic_states import TopicRowState, TopicSubset
from controlplane.selectors import (
    alerts,
    changes,
    dead_letters,
    delayed_messages,
    groups,
    half_messages,
    incidents,
    partitions,
    recoveries,
    remote_sizes,
    topics,
    undecided_half_messages,
)

STATES: dict[str, str] = {
    "": gettext_lazy("All"),
    TopicSubset.PROBLEMS: gettext_lazy("With problems"),
    TopicSubset.MOVING: gettext_lazy("Reassigning"),
    TopicSubset.DRIFT: gettext_lazy("Config drift"),
}
COLUMNS = "State|Partitions|Replication factor|Under-replicated|Offline|Records|Records/s in|Bytes/s in|Bytes/s out|Size|Cleanup policy"
"""The columns of the list that a user can hide, in order."""
TOPIC_CHARTS = ("records_per_s", "bytes_in_per_s", "bytes_out_per_s", "size_bytes")
DRIFT_SHOWN_MAX = 50
"""Maximum number of topics out of sync with their declared state that a page shows; it counts the rest. After a restore it may be all topics."""


class TopicTab(StrEnum):
    PARTITIONS = "partitions"
    CONFIGS = "configs"
    GROUPS = "groups"
    CHANGES = "changes"


class ConfigChoice(StrEnum):
    """Filter of the list of configs. `CHANGED`: overrides. `DIFFERENT`: from the other topic."""

    CHANGED = "changed"
    DIFFERENT = "different"


TABS = {
    TopicTab.PARTITIONS: gettext_lazy("Partitions"),
    TopicTab.CONFIGS: gettext_lazy("Configs"),
    TopicTab.GROUPS: gettext_lazy("Groups"),
    TopicTab.CHANGES: gettext_lazy("Changes"),
}


@viewer_required
def topic_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    state = request.GET.get("state", "") if request.GET.get("state", "") in STATES else ""
    internal = request.GET.get("internal") == "1"
    read = partial(topics.topic_list, query=query, state=state, internal=internal)
    options = list_options(request, "-severity" if state == TopicSubset.PROBLEMS else "name")
    if exports.is_requested(request):
        return exports.response("topics", read, options["sort"])
    found = read(**options)
    drift = topics.drift_list() if state == TopicSubset.DRIFT else []
    context = {
        "page": found,
        "csv": True,
        "columns": COLUMNS,
        "q": query,
        "state": state,
        "states": STATES,
        "internal": internal,
        "drift": drift[:DRIFT_SHOWN_MAX],
        "drift_more": max(0, len(drift) - DRIFT_SHOWN_MAX),
        "overdue": undecided_half_messages.overdue_topics(),
        "waiting_more": 0 if state else max(0, topics.waiting_count(query) - topics.WAITING_SHOWN_MAX),
    }
    return render_page(request, "console/topics.html", context, nav="topics")


@dataclass(frozen=True, slots=True)
class ComparedConfigs:
    """The configs of a topic in `groups`, each with the value of the other topic. `problem`: why there is no comparison."""

    groups: list[GroupedRows[tuple[topics.ConfigRow, str | None]]]
    changed: int
    different: int
    problem: str


def compared_configs(name: str, other: str, only: str) -> ComparedConfigs:
    """`other`: the topic to compare with, or "". `only`: a ConfigChoice; another value selects all."""
    rows = topics.topic_configs(name)
    values = {c.name: c.value for c in topics.topic_configs(other)} if other else {}
    overrides = [c for c in rows if c.is_override or c.is_of_move]
    shown = overrides if only == ConfigChoice.CHANGED else rows
    if values and only == ConfigChoice.DIFFERENT:
        shown = [c for c in rows if values.get(c.name) != c.value]
    return ComparedConfigs(
        grouped_configs([(c, values.get(c.name)) for c in shown], lambda row: row[0].name),
        len(overrides),
        sum(1 for c in rows if values and values.get(c.name) != c.value),
        _("There is no topic {other}.").format(other=other) if other and not values else "",
    )


def _kinds_of_partitions(row: topics.TopicRow) -> list[AlertKind]:
    """The kinds of alerts about partitions of all topics that are also about partitions of this topic."""
    numbers = {
        AlertKind.PARTITIONS_OFFLINE: row.offline,
        AlertKind.PARTITIONS_UNDER_MIN_ISR: row.under_min_isr,
        AlertKind.PARTITIONS_UNDER_REPLICATED: row.under_replicated,
    }
    return [kind for kind, number in numbers.items() if number]


@viewer_required
def topic(request: HttpRequest, name: str) -> HttpResponse:
    detail = topics.topic_detail(name)
    if detail is None:
        return not_found(request, _("topic {name}").format(name=name), "topics", nav="topics")
    tab = request.GET.get("tab", "") if request.GET.get("tab", "") in TABS else TopicTab.PARTITIONS
    context = {
        "t": detail,
        "tab": tab,
        "tabs": [(key, text, len(detail.groups) if key == TopicTab.GROUPS else 0) for key, text in TABS.items()],
        "alerts": lazy(
            lambda: incidents.with_incident_severity(
                alerts.open_alerts_of_topic(name, _kinds_of_partitions(detail.row))
            )
        ),
        "has_dead_letters": lazy(dead_letters.dead_letter_topic, name),
        "delayed_messages_of": lazy(delayed_messages.topic_of, name),
        "half_messages_of": lazy(half_messages.topic_of, name),
        "h": lazy(page_charts, request, f"topic:{name}", *TOPIC_CHARTS),
        "storage": lazy(remote_sizes.topic_storage, name),
        "drift": next((d for d in topics.drift_list() if d.name == name), None)
        if detail.row.state == TopicRowState.DRIFT
        else None,
    }
    if tab == TopicTab.PARTITIONS:
        options = list_options(request, "index")
        context["page"] = lazy(
            partitions.partition_list, name, sort=options["sort"], page=options["page"], per_page=100
        )
        context["recoveries"] = lazy(recoveries.recovery_list, state=recoveries.UNFINISHED, topic=name)
    elif tab == TopicTab.CONFIGS:
        other, only = request.GET.get("other", "").strip(), request.GET.get("only", "")
        context |= {"other": other, "configs": lazy(compared_configs, name, other, only)}
        context |= {"only": only, "changed_only": only == ConfigChoice.CHANGED}
    elif tab == TopicTab.GROUPS:
        context["page"] = lazy(groups.group_list, topic=name, **list_options(request, "group_id"))
    else:
        context["page"] = lazy(
            changes.change_list, object_kind="topic", object_name=name, **list_options(request, "-id")
        )
    return render_page(request, "console/topic.html", context, nav="topics")
