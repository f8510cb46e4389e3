"""Create, alter, delete and adopt a topic, and rebuild one replica. Law: a diff before every change; what dies is said before it does."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.forms import DestroyForm, TopicForm, WhyForm
from console.views.shell import go, missing, operator, page, refused, said, signed_in, who
from controlplane.selectors import moves, partitions, topics
from controlplane.services import Refused, recovery
from controlplane.services import topics as services
from controlplane.words import size_text


@operator
def create(request: HttpRequest) -> HttpResponse:
    form = TopicForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            services.create_topic(
                v["name"],
                partitions=v["partitions"],
                replication_factor=v["replication_factor"],
                configs=v["configs"],
                who=who(request),
                why=v["why"],
            )
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Topic {v['name']} is asked for; the controller places it now.")
            return go("topic", v["name"])
    body = {"name": form["name"].value() or "NAME", "partitions": _int(form["partitions"].value(), 3)}
    return page(request, "console/topic_new.html", {"form": form, "body": body}, nav="topics", status=_status(form))


@operator
def alter(request: HttpRequest, name: str) -> HttpResponse:
    """Two steps: what is wanted, then the difference; the second is bound to the generation the first has read."""
    detail = topics.topic_detail(name)
    if detail is None:
        return missing(request, f"topic {name}", "topics", nav="topics")
    configs = topics.topic_configs(name)
    context: dict[str, Any] = {
        "t": detail,
        "configs": configs,
        "typed": {},
        "partitions": detail.row.partitions,
        "why": "",
    }
    if request.method == "POST" and request.POST.get("step") == "apply":
        try:
            asked = json.loads(request.POST.get("asked", ""))
            services.alter_topic(
                name,
                partitions=asked.get("partitions"),
                set_configs=asked.get("set") or {},
                delete_configs=asked.get("delete") or [],
                who=who(request),
                why=request.POST.get("why", "")[:500],
                if_generation=asked.get("generation"),
            )
        except Refused as error:
            return page(
                request, "console/topic_alter.html", {**context, "error": error.reason}, nav="topics", status=409
            )
        except (ValueError, AttributeError):
            context["error"] = "The reviewed change was lost on the way; enter it again."
            return page(request, "console/topic_alter.html", context, nav="topics", status=400)
        said(request, f"The change of {name} is asked for; its outcome is in the audit.")
        return go("topic", name, tab="configs" if asked.get("set") or asked.get("delete") else "partitions")
    if request.method == "POST":
        return _review(request, name, detail, configs, context)
    return page(request, "console/topic_alter.html", context, nav="topics")


def _review(
    request: HttpRequest,
    name: str,
    detail: topics.TopicDetail,
    configs: list[topics.ConfigRow],
    context: dict[str, Any],
) -> HttpResponse:
    typed = {c.name: request.POST[f"c:{c.name}"].strip() for c in configs if f"c:{c.name}" in request.POST}
    partitions = _int(request.POST.get("partitions"), -1)
    diff: list[dict[str, Any]] = []
    wanted: dict[str, str] = {}
    dropped: list[str] = []
    if partitions != detail.row.partitions:
        diff.append({"key": "partitions", "now": detail.row.partitions, "source": "this topic", "new": partitions})
    for c in configs:
        value = typed.get(c.name)
        own = c.value if c.source == "topic" else ""
        if value is None or value == own:
            continue
        if value:
            wanted[c.name] = value
        else:
            dropped.append(c.name)
        diff.append({"key": c.name, "now": c.value, "source": c.source, "new": value or f"{c.default} (default)"})
    context |= {"typed": typed, "partitions": request.POST.get("partitions", ""), "why": request.POST.get("why", "")}
    if partitions < 1:
        context["error"] = f"“{request.POST.get('partitions', '')}” is no number of partitions."
    elif not diff:
        context["error"] = "Nothing is changed yet: every value is as it was."
    if context.get("error"):
        return page(request, "console/topic_alter.html", context, nav="topics", status=400)
    asked = {
        "partitions": partitions if partitions != detail.row.partitions else None,
        "set": wanted,
        "delete": dropped,
        "generation": detail.row.generation,
    }
    body = {"configs": {**wanted, **dict.fromkeys(dropped)}, "if_generation": detail.row.generation}
    if asked["partitions"] is not None:
        body["partitions"] = partitions
    return page(
        request,
        "console/topic_alter_review.html",
        {**context, "diff": diff, "asked": json.dumps(asked), "body": body, "grows": asked["partitions"] is not None},
        nav="topics",
    )


@operator
def delete(request: HttpRequest, name: str) -> HttpResponse:
    detail = topics.topic_detail(name)
    if detail is None:
        return missing(request, f"topic {name}", "topics", nav="topics")
    form = DestroyForm(name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.delete_topic(
                name, who=who(request), why=form.cleaned_data["why"], confirm_name=form.cleaned_data["confirm_name"]
            )
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Topic {name} is being deleted.")
            return go("topics")
    return page(request, "console/topic_delete.html", {"t": detail, "form": form}, nav="topics", status=_status(form))


@require_POST
@operator
def adopt(request: HttpRequest, topic_id: UUID) -> HttpResponse:
    try:
        row = services.adopt_topic(topic_id, who=who(request))
    except Refused as error:
        return refused(request, error, reverse("topics"), nav="topics")
    said(request, f"The cluster's state of {row.name} is now the wanted one.")
    return go("topic", row.name)


@signed_in
def partition(request: HttpRequest, name: str, index: int) -> HttpResponse:
    """One partition with each of its copies."""
    row = partitions.partition_row(name, index)
    if row is None:
        return missing(request, f"partition {name}-{index}", "topics", nav="topics")
    return page(
        request,
        "console/partition.html",
        {
            "p": row,
            "p_text": str(index),
            "recoveries": moves.recovery_list(topic=name, partition=index, per_page=10).rows,
            "findings": moves.finding_list(open_only=True, topic=name, partition=index).rows,
        },
        nav="topics",
    )


@operator
def recover(request: HttpRequest, name: str, index: int, broker_id: int) -> HttpResponse:
    row = partitions.partition_row(name, index)
    if row is None:
        return missing(request, f"partition {name}-{index}", "topics", nav="topics")
    form = WhyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            recovery.recover_replica(name, index, broker_id, who=who(request), why=form.cleaned_data["why"])
        except Refused as error:
            form.refuse(error)
        else:
            said(request, f"Replica {broker_id} of {name}-{index} is being rebuilt.")
            return go("partition", name, index)
    copy = next((r for r in row.replica_rows if r.broker_id == broker_id), None)
    source = next((r for r in row.replica_rows if r.is_leader), None)
    whole = source.size_bytes if source else None
    context = {
        "title": f"Rebuild replica {broker_id} of {name}-{index}",
        "form": form,
        "lines": [
            f"The copy on broker {broker_id} ({'size not known' if copy is None or copy.size_bytes is None else size_text(copy.size_bytes)}) "
            "is thrown away.",
            f"{'An amount not known yet' if whole is None else size_text(whole)} is fetched from the leader, broker {row.leader}.",
            f"Until it has caught up, {len([b for b in row.isr if b != broker_id])} of {len(row.replicas)} replicas are in sync.",
            "It is refused when no other replica is alive and in sync.",
        ],
        "button": f"Rebuild it from broker {row.leader}",
        "back": reverse("partition", args=[name, index]),
        "method": "POST",
        "path": "recoveries",
        "body": {"topic": name, "partition": index, "broker_id": broker_id},
    }
    return page(request, "console/confirm.html", context, nav="topics", status=_status(form))


def _int(text: Any, default: int) -> int:
    try:
        return int(str(text))
    except ValueError:
        return default


def _status(form: Any) -> int:
    return 400 if form.is_bound and form.errors else 200
