"""Topics: the list, and one topic with its partitions, configs, readers and changes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import listing, missing, page, signed_in
from controlplane.selectors import changes, console_history, groups, moves, partitions, topics

ONLY = {"": "all", "problems": "with problems", "moving": "moving", "drift": "drift"}
DRIFT_SHOWN_MAX = 50
"""Topics that differ, explained one by one on a page; the rest is counted: after a restore every topic may."""
TABS = {"partitions": "Partitions", "configs": "Configs", "groups": "Groups", "changes": "Changes"}


@signed_in
def topic_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    only = request.GET.get("only", "") if request.GET.get("only", "") in ONLY else ""
    internal = request.GET.get("internal") == "1"
    found = topics.topic_list(query=query, only=only, internal=internal, **listing(request, "name"))
    drift = topics.drift_list() if only == "drift" else []
    context = {
        "page": found,
        "q": query,
        "only": only,
        "onlys": ONLY,
        "internal": internal,
        "drift": drift[:DRIFT_SHOWN_MAX],
        "drift_more": max(0, len(drift) - DRIFT_SHOWN_MAX),
        "waiting_more": 0 if only else max(0, topics.waiting_count(query) - topics.WAITING_SHOWN_MAX),
    }
    return page(request, "console/topics.html", context, nav="topics")


@signed_in
def topic(request: HttpRequest, name: str) -> HttpResponse:
    detail = topics.topic_detail(name)
    if detail is None:
        return missing(request, f"topic {name}", "topics", nav="topics")
    tab = request.GET.get("tab", "") if request.GET.get("tab", "") in TABS else "partitions"
    context = {
        "t": detail,
        "tab": tab,
        "tabs": TABS,
        "rate": console_history.series(f"topic:{name}", "records_per_s"),
        "drift": next((d for d in topics.drift_list() if d.name == name), None)
        if detail.row.state == "drift"
        else None,
    }
    if tab == "partitions":
        context["page"] = partitions.partition_list(name, **{**listing(request, "index"), "per_page": 100})
        context["recoveries"] = moves.recovery_list(working=True, topic=name).rows
    elif tab == "configs":
        context["configs"] = topics.topic_configs(name)
    elif tab == "groups":
        context["page"] = groups.group_list(topic=name, **listing(request, "group_id"))
    else:
        context["page"] = changes.change_list(object_kind="topic", object_name=name, **listing(request, "-id"))
    return page(request, "console/topic.html", context, nav="topics")
