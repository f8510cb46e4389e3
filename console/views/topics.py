"""Topics: list, one topic with its partitions, configs, consumer groups and changes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.history_charts import page_charts
from console.panels import lazy
from console.views.shell import list_options, not_found, render_page, viewer_required
from controlplane.selectors import changes, groups, half_messages, partitions, recoveries, topics

ONLY = {"": "All", "problems": "With problems", "moving": "Reassigning", "drift": "Drift"}
DRIFT_SHOWN_MAX = 50
"""Topics out of sync with their declared state that a page shows; it counts the rest. After a restore it may be all topics."""
TABS = {"partitions": "Partitions", "configs": "Configs", "groups": "Groups", "changes": "Changes"}


@viewer_required
def topic_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    only = request.GET.get("only", "") if request.GET.get("only", "") in ONLY else ""
    internal = request.GET.get("internal") == "1"
    found = topics.topic_list(query=query, only=only, internal=internal, **list_options(request, "name"))
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
    return render_page(request, "console/topics.html", context, nav="topics")


@viewer_required
def topic(request: HttpRequest, name: str) -> HttpResponse:
    detail = topics.topic_detail(name)
    if detail is None:
        return not_found(request, f"topic {name}", "topics", nav="topics")
    tab = request.GET.get("tab", "") if request.GET.get("tab", "") in TABS else "partitions"
    context = {
        "t": detail,
        "tab": tab,
        "tabs": TABS,
        "has_half_messages": lazy(half_messages.front_topic, name),
        "h": lazy(page_charts, request, f"topic:{name}", "records_per_s", "size_bytes"),
        "drift": next((d for d in topics.drift_list() if d.name == name), None)
        if detail.row.state == "drift"
        else None,
    }
    if tab == "partitions":
        context["page"] = lazy(partitions.partition_list, name, **{**list_options(request, "index"), "per_page": 100})
        context["recoveries"] = lazy(recoveries.recovery_list, working=True, topic=name)
    elif tab == "configs":
        context["configs"] = lazy(topics.topic_configs, name)
    elif tab == "groups":
        context["page"] = lazy(groups.group_list, topic=name, **list_options(request, "group_id"))
    else:
        context["page"] = lazy(
            changes.change_list, object_kind="topic", object_name=name, **list_options(request, "-id")
        )
    return render_page(request, "console/topic.html", context, nav="topics")
