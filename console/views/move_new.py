"""A new move in three steps: choose partitions, choose where, review with numbers. Law: the steps live in the address; nothing is written
before the last button, and what the review shows is what runs (the same `plan`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from console.forms import MoveForm
from console.views.shell import go, operator, page, said, who
from controlplane.selectors import brokers, partitions, topics
from controlplane.selectors.partitions import PartitionRow
from controlplane.services import Refused, plans, proposals, rebalancing
from controlplane.services import moves as services
from controlplane.words import size_text

KINDS = {
    "partitions": "Partitions of a topic",
    "topic": "A whole topic",
    "drain": "Drain a broker or rack",
    "fill": "Fill a broker or rack",
    "replication_factor": "Change a replication factor",
    "rebalance": "Rebalance by goals",
    "plan": "A plan as Kafka's JSON",
}
PARTITIONS_SHOWN_MAX = 500
"""Partitions that can be chosen by hand on one page; a whole topic, a broker or the REST API take any number."""

REVIEWED_MAX = 2_000
"""Partitions of a pasted plan that its review carries along in the page; more are saved as a plan."""

PARTS_SHOWN_MAX = 200
"""Rows of the review; the sums above them are over all."""

RACK = "rack:"
"""Before a rack's name, where a broker's number may stand, too."""


PLAN_BODY = {
    "scope": {"version": 1, "partitions": [{"topic": "TOPIC", "partition": 0, "replicas": [1, 2, 3]}]},
    "name": "NAME",
    "why": "WHY",
}
"""What the REST call beside the pasted plan carries."""


@operator
def new(request: HttpRequest) -> HttpResponse:
    q = request.GET
    kind = q.get("kind", "partitions") if q.get("kind", "partitions") in KINDS else "partitions"
    step = q.get("step", "choose")
    context: dict[str, Any] = {
        "kind": kind,
        "kinds": KINDS,
        "brokers": brokers.broker_list(),
        "topic": q.get("topic", "").strip(),
    }
    if request.method == "POST" and "plan" in request.POST:
        return _imported(request, context)
    if request.method == "POST":
        return _write(request, context)
    if step == "review":
        return _review(request, context)
    if kind == "rebalance":
        return go("rebalance")
    if kind == "partitions" and step == "where":
        return _where(request, context)
    if context["topic"]:
        context["topic_row"] = topics.topic_row(context["topic"])
        if context["topic_row"] is None:
            context["error"] = f"There is no topic {context['topic']}."
        elif kind == "partitions":
            context["partitions"] = partitions.partition_list(context["topic"], per_page=PARTITIONS_SHOWN_MAX)
    context |= {
        "plan_body": PLAN_BODY,
        "racks": sorted({b.rack for b in context["brokers"] if b.rack}),
        "chosen": q.getlist("p"),
        "broker": q.get("broker", ""),
        "factor": q.get("factor", ""),
    }
    return page(request, "console/move_choose.html", context, nav="moves")


def _imported(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """A plan that was pasted or chosen as a file: too long for an address, so that its review is the answer to a POST that writes nothing. One of
    many partitions is saved instead: its page shows them a hundred at a time."""
    file = request.FILES.get("file")
    why = request.POST.get("why", "")
    try:
        text = file.read().decode() if file is not None else request.POST["plan"].strip()  # type: ignore[union-attr]
        scope = services.known_scope(json.loads(text)) if text else {}
        if scope.get("kind") != "partitions":
            raise Refused('Paste what kafka-reassign-partitions reads: {"version": 1, "partitions": [...]}.', "scope")
        if request.POST.get("act") == "save":
            row = plans.save_plan(scope, name=request.POST.get("name", ""), who=who(request), why=why, override=True)
            said(request, f"Plan {row.pk} is saved; it holds no partition until a move is made of it.")
            return go("plan", row.pk)
        if len(scope["partitions"]) > REVIEWED_MAX:
            raise Refused(
                f"It names {len(scope['partitions'])} partitions: save it as a plan, whose page shows them all."
            )
        return _reviewed(request, context, scope)
    except (ValueError, AttributeError) as error:
        reason = (
            f"This is not JSON: {error}" if isinstance(error, ValueError) else "An object with partitions is needed."
        )
    except Refused as error:
        reason = error.reason
    shown = request.POST.get("plan", "")
    context |= {
        "kind": "plan",
        "plan": shown,
        "plan_name": request.POST.get("name", ""),
        "why": why,
        "error": reason,
        "plan_body": PLAN_BODY,
    }
    return page(request, "console/move_choose.html", context, nav="moves", status=400)


def _where(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Step two: target replicas per chosen partition, by hand or spread over chosen brokers."""
    q = request.GET
    rows = _chosen(context["topic"], q)
    over = [int(b) for b in q.getlist("over") if b.isdigit()]
    context |= {"over": over, "chosen": [str(p.index) for p in rows], "query": q}
    if not rows:
        context["error"] = "Choose at least one partition."
        context["topic_row"] = topics.topic_row(context["topic"])
        context["partitions"] = partitions.partition_list(context["topic"], per_page=PARTITIONS_SHOWN_MAX)
        return page(request, "console/move_choose.html", context, nav="moves", status=400)
    if over and len(over) < max(len(p.replicas) for p in rows):
        context["error"] = (
            f"{len(over)} brokers cannot hold {max(len(p.replicas) for p in rows)} replicas of a partition; choose more."
        )
        over = []
    context["rows"] = [
        {
            "p": p,
            "name": f"r{p.index}",
            "to": ",".join(map(str, spread(i, len(p.replicas), over) if over else p.replicas)),
        }
        for i, p in enumerate(rows)
    ]
    return page(request, "console/move_where.html", context, nav="moves")


def spread(place: int, replicas: int, over: list[int]) -> list[int]:
    """Replicas of the `place`-th partition, taking turns over brokers so that leaders spread too."""
    return [over[(place + j) % len(over)] for j in range(replicas)]


def _chosen(topic: str, q: QueryDict) -> list[PartitionRow]:
    wanted = {int(p) for p in q.getlist("p") if p.isdigit()}
    if not wanted:
        return []
    return [p for p in partitions.partition_list(topic, per_page=PARTITIONS_SHOWN_MAX).rows if p.index in wanted]


def _scope(kind: str, q: QueryDict) -> dict[str, Any]:
    """The scope as `services.moves` takes it. Raises Refused for what cannot be read."""
    topic = q.get("topic", "").strip()
    if kind in ("drain", "fill"):
        whole, _, rack = q.get("broker", "").partition(RACK)
        return (
            {"kind": kind, "rack": rack} if rack and not whole else {"kind": kind, "broker": _number(whole, "broker")}
        )
    if kind == "rebalance":
        return rebalancing.scope_of(q.getlist("goal"), _share(q.get("tolerance", "")))
    if kind == "topic":
        return {"kind": kind, "topic": topic, "brokers": [_number(b, "broker") for b in q.getlist("over")]}
    if kind == "replication_factor":
        return {"kind": kind, "topic": topic, "replication_factor": _number(q.get("factor", ""), "replication factor")}
    parts = [
        {
            "topic": topic,
            "partition": int(p),
            "replicas": [_number(b, "broker") for b in re.split(r"[\s,]+", q.get(f"r{p}", "").strip()) if b],
        }
        for p in q.getlist("p")
        if p.isdigit()
    ]
    return {"kind": kind, "partitions": parts}


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refused(f"“{text}” is no {what}; write a number.", "scope") from None


def _share(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Refused(f"“{text}” is no share of the mean; write 0.1 for a tenth.", "tolerance") from None


def _review(request: HttpRequest, context: dict[str, Any], form: MoveForm | None = None) -> HttpResponse:
    """Step three: the numbers. A GET asks the plan anew; after a refused POST the form comes back with the reason."""
    try:
        scope = form.cleaned_data["scope"] if form is not None else _scope(context["kind"], request.GET)
        return _reviewed(request, context, scope, form)
    except Refused as error:
        return page(request, "console/move_review.html", {**context, "error": error.reason}, nav="moves", status=400)


def _reviewed(
    request: HttpRequest, context: dict[str, Any], scope: Mapping[str, Any], form: MoveForm | None = None
) -> HttpResponse:
    throttle = form.cleaned_data.get("throttle_bytes_per_s") if form is not None else None
    preview = services.preview_move(scope, throttle)
    copies = sum(len(set(p.replicas_to) - set(p.replicas_from)) for p in preview.parts)
    amount = "size not known" if preview.bytes_to_copy is None else size_text(preview.bytes_to_copy)
    button = (
        f"Move {copies} replica{'' if copies == 1 else 's'}, {amount}"
        if copies
        else f"Reorder {len(preview.parts)} partitions"
    )
    mode = form.cleaned_data.get("mode", "copy") if form is not None else "copy"
    caps = {"parts_in_flight_max": 8, "parts_per_broker_max": 4, "throttle_bytes_per_s": throttle, "mode": mode}
    if form is not None and form.cleaned_data.get("handover"):
        caps["handover"] = form.cleaned_data["handover"]
    context |= {
        "preview": preview,
        "parts": preview.parts[:PARTS_SHOWN_MAX],
        "copies": copies,
        "button": button,
        "form": form or MoveForm(initial={"scope": json.dumps(scope)}),
        "body": {"scope": scope, "start": True, **caps},
    }
    status = 409 if form is not None and form.errors else 200
    return page(request, "console/move_review.html", context, nav="moves", status=status)


def _write(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    form = MoveForm(request.POST)
    if not form.is_valid():
        if "scope" in form.cleaned_data:
            return _review(request, context, form)
        return page(
            request,
            "console/move_review.html",
            {**context, "error": "The reviewed move was lost on the way; begin again."},
            status=400,
        )
    v = form.cleaned_data
    try:
        caps = {
            k: v[k]
            for k in (
                "parts_in_flight_max",
                "parts_per_broker_max",
                "throttle_bytes_per_s",
                "compare",
                "mode",
                "deadline_hours",
                "handover",
            )
        }
        if request.POST.get("act") == "propose":
            return _proposed(request, v, caps)
        if request.POST.get("act") == "save":
            plan = plans.save_plan(v["scope"], who=who(request), why=v["why"], override=True)
            said(request, f"Plan {plan.pk} is saved; it holds no partition until a move is made of it.")
            return go("plan", plan.pk)
        move = services.plan_move(v["scope"], who=who(request), why=v["why"], **caps)
        if request.POST.get("act") == "start":
            services.start_move(move.pk, who=who(request), why=v["why"])
            said(request, f"Move {move.pk} has started.")
        else:
            said(request, f"Move {move.pk} is planned; nothing moves until it is started.")
    except Refused as error:
        form.refuse(error)
        return _review(request, context, form)
    return go("move", move.pk)


def _proposed(request: HttpRequest, v: Mapping[str, Any], caps: Mapping[str, Any]) -> HttpResponse:
    """It goes against a safety refusal: written down, and proposed to another operator."""
    move = services.plan_move(v["scope"], who=who(request), why=v["why"], override=True, **caps)
    row = proposals.propose("move.approve", str(move.pk), {"start": True}, who=who(request), why=v["why"])
    said(request, f"Move {move.pk} is planned and proposed; it begins when another operator approves.")
    return go("proposal", row.pk)
