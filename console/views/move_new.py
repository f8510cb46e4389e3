"""New move in three steps: select partitions, choose target brokers, review.

The state of the steps is in the URL. Nothing is written before the last button. The review and the move use the same plan."""

from __future__ import annotations

import json
import re
from typing import cast

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _

from console.forms import RACK, MoveForm
from console.move_cells import MOVE_MODES
from console.panels import lazy
from console.texts import counted, gettext_lazy
from console.views.shell import actor, flash, operator_required, redirect_to, render_page, require_role
from console.vocabulary import rejection_text
from controlplane.domain.roles import RoleResource
from controlplane.domain.scope import (
    DrainScope,
    FillScope,
    PartitionsScope,
    Placement,
    ReplicationFactorScope,
    Scope,
    ScopeKind,
    TopicScope,
    to_json,
)
from controlplane.domain.text import size_text
from controlplane.selectors import brokers, partitions, topics
from controlplane.selectors.partitions import PartitionRow
from controlplane.selectors.visibility import limited
from controlplane.services import Rejected, plans, proposals, rebalance
from controlplane.services import moves as services
from controlplane.services.move_planning import MoveCaps
from controlplane.services.request_resources import topics_in

IMPORT = "plan"
"""Kind of a move from an imported plan."""
KINDS: dict[str, str] = {
    ScopeKind.PARTITIONS: gettext_lazy("Partitions of a topic"),
    ScopeKind.TOPIC: gettext_lazy("A whole topic"),
    ScopeKind.DRAIN: gettext_lazy("Drain a broker or rack"),
    ScopeKind.FILL: gettext_lazy("Rebalance onto a broker or rack"),
    ScopeKind.REPLICATION_FACTOR: gettext_lazy("Change replication factor"),
    ScopeKind.REBALANCE: gettext_lazy("Rebalance by goals"),
    IMPORT: gettext_lazy("Import reassignment JSON"),
}
FORMS: dict[str, str] = {
    ScopeKind.PARTITIONS: "console/parts/move_partitions.html",
    ScopeKind.TOPIC: "console/parts/move_topic.html",
    ScopeKind.DRAIN: "console/parts/move_broker.html",
    ScopeKind.FILL: "console/parts/move_broker.html",
    ScopeKind.REPLICATION_FACTOR: "console/parts/move_factor.html",
    ScopeKind.REBALANCE: "console/parts/move_form.html",
    IMPORT: "console/parts/move_import.html",
}
"""Templates of the first step. A rebalance has a page of its own, which this form opens."""
HINTS: dict[str, str] = {
    ScopeKind.DRAIN: gettext_lazy("Moves all replicas off."),
    ScopeKind.FILL: gettext_lazy("Moves replicas from the fullest brokers."),
}
PARTITIONS_SHOWN_MAX = 500
"""Maximum number of partitions that can be selected on one page. A whole topic, a broker and the REST API have no limit."""

REVIEWED_MAX = 2_000
"""Maximum number of partitions of an imported plan that the review page can carry. A larger plan must be saved first."""

PARTS_SHOWN_MAX = 200
"""Maximum number of rows of the review. The totals include all partitions."""

PLAN_BODY = {
    "scope": {"version": 1, "partitions": [{"topic": "TOPIC", "partition": 0, "replicas": [1, 2, 3]}]},
    "name": "NAME",
    "comment": "COMMENT",
}
"""Body of the REST call that saves an imported plan."""


@operator_required
def new(request: HttpRequest) -> HttpResponse:
    query = request.GET
    kind = query.get("kind", "") if query.get("kind", "") in KINDS else ScopeKind.PARTITIONS.value
    step, topic, every_broker = query.get("step", "choose"), query.get("topic", "").strip(), brokers.broker_list()
    context: dict[str, object] = {
        "kind": kind,
        "kinds": KINDS,
        "form_template": FORMS[kind],
        "hint": HINTS.get(kind, ""),
        "brokers": every_broker,
        "topic": topic,
        "topic_names": lazy(topics.topic_names),
    }
    if request.method == "POST" and "plan" in request.POST:
        return _import_plan(request, context)
    if request.method == "POST":
        return _submit(request, kind, context)
    if step == "review":
        return _review(request, kind, context)
    if kind == ScopeKind.REBALANCE:
        return redirect_to("rebalance")
    if kind == ScopeKind.PARTITIONS and step == "where":
        return _choose_targets(request, topic, context)
    if topic:
        context["topic_row"] = topics.topic_row(topic)
        if context["topic_row"] is None:
            context["error"] = _("Topic {topic} does not exist.").format(topic=topic)
        elif kind == ScopeKind.PARTITIONS:
            context["partitions"] = partitions.partition_list(topic, per_page=PARTITIONS_SHOWN_MAX)
    context |= {
        "plan_body": PLAN_BODY,
        "racks": sorted({b.rack for b in every_broker if b.rack}),
        "chosen": query.getlist("p"),
        "broker": query.get("broker", ""),
        "factor": query.get("factor", ""),
    }
    return render_page(request, "console/move_choose.html", context, nav="moves")


def _import_plan(request: HttpRequest, context: dict[str, object]) -> HttpResponse:
    """An imported plan, pasted or uploaded. It is too long for a URL, so the response of this POST is the review and nothing is written. A plan
    of more than REVIEWED_MAX partitions must be saved; its page shows 100 partitions at a time."""
    file = request.FILES.get("file")
    comment = request.POST.get("comment", "")
    try:
        text = file.read().decode() if file is not None else request.POST["plan"].strip()  # type: ignore[union-attr]
        value = json.loads(text) if text else {}
        scope = services.parse_scope(value) if "partitions" in value else None
        if not isinstance(scope, PartitionsScope):
            raise Rejected(
                _('Enter JSON in the format of kafka-reassign-partitions: {"version": 1, "partitions": [...]}.'),
                "scope",
            )
        if request.POST.get("act") == "save":
            require_role(request, RoleResource.TOPIC, ())
            row = plans.save_plan(
                scope, name=request.POST.get("name", ""), actor=actor(request), comment=comment, override=True
            )
            flash(request, _("Plan {id} saved. It locks no partition until a move of it is created.").format(id=row.pk))
            return redirect_to("plan", row.pk)
        if len(scope.partitions) > REVIEWED_MAX:
            raise Rejected(
                _("The plan has {partitions} partitions, more than a review shows. Save it as a plan.").format(
                    partitions=len(scope.partitions)
                )
            )
        return _render_review(request, context, scope)
    except (ValueError, AttributeError) as error:
        reason = (
            _("Invalid JSON: {error}").format(error=error)
            if isinstance(error, ValueError)
            else _("The JSON must be an object with partitions.")
        )
    except Rejected as error:
        reason = rejection_text(error)
    context |= {
        "kind": IMPORT,
        "form_template": FORMS[IMPORT],
        "plan": request.POST.get("plan", ""),
        "plan_name": request.POST.get("name", ""),
        "comment": comment,
        "error": reason,
        "plan_body": PLAN_BODY,
    }
    return render_page(request, "console/move_choose.html", context, nav="moves", status=400)


def _choose_targets(request: HttpRequest, topic: str, context: dict[str, object]) -> HttpResponse:
    """Step 2: target replicas of each selected partition, typed or distributed across selected brokers."""
    q = request.GET
    rows = _selected_partitions(topic, q)
    over = [int(b) for b in q.getlist("over") if b.isdigit()]
    context |= {"over": over, "chosen": [str(p.index) for p in rows], "query": q}
    if not rows:
        context["error"] = _("Select at least one partition.")
        context["topic_row"] = topics.topic_row(topic)
        context["partitions"] = partitions.partition_list(topic, per_page=PARTITIONS_SHOWN_MAX)
        return render_page(request, "console/move_choose.html", context, nav="moves", status=400)
    if over and len(over) < max(len(p.replicas) for p in rows):
        context["error"] = _("{over} brokers are too few for {value} replicas per partition. Select more.").format(
            over=len(over), value=max(len(p.replicas) for p in rows)
        )
        over = []
    context["rows"] = [
        {
            "p": p,
            "name": f"r{p.index}",
            "to": ",".join(map(str, round_robin(i, len(p.replicas), over) if over else p.replicas)),
        }
        for i, p in enumerate(rows)
    ]
    return render_page(request, "console/move_where.html", context, nav="moves")


def round_robin(position: int, replicas: int, over: list[int]) -> list[int]:
    """Target replicas of the partition at `position`. The first replica rotates, so preferred leaders are distributed too."""
    return [over[(position + j) % len(over)] for j in range(replicas)]


def _selected_partitions(topic: str, query: QueryDict) -> list[PartitionRow]:
    selected = {int(p) for p in query.getlist("p") if p.isdigit()}
    if not selected:
        return []
    return [p for p in partitions.partition_list(topic, per_page=PARTITIONS_SHOWN_MAX).rows if p.index in selected]


def _scope(kind: str, query: QueryDict) -> Scope:
    """The scope that the form requests. Raises Rejected for values that cannot be parsed."""
    topic = query.get("topic", "").strip()
    if kind in (ScopeKind.DRAIN, ScopeKind.FILL):
        broker, __, rack = query.get("broker", "").partition(RACK)
        made = DrainScope if kind == ScopeKind.DRAIN else FillScope
        return made(rack=rack) if rack and not broker else made(broker=_number(broker, "broker"))
    if kind == ScopeKind.REBALANCE:
        return rebalance.scope_of(query.getlist("goal"), _fraction(query.get("tolerance", "")))
    if kind == ScopeKind.TOPIC:
        return TopicScope(topic, tuple(_number(b, "broker") for b in query.getlist("over")))
    if kind == ScopeKind.REPLICATION_FACTOR:
        return ReplicationFactorScope(topic, _number(query.get("factor", ""), _("replication factor")))
    parts = (
        Placement(
            topic,
            int(p),
            tuple(_number(b, "broker") for b in re.split(r"[\s,]+", query.get(f"r{p}", "").strip()) if b),
        )
        for p in query.getlist("p")
        if p.isdigit()
    )
    return PartitionsScope(tuple(parts))


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Rejected(_("“{text}” is not a {what}. Enter a number.").format(text=text, what=what), "scope") from None


def _fraction(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise Rejected(_("“{text}” is not a fraction. Enter 0.1 for 10 %.").format(text=text), "tolerance") from None


def _review(request: HttpRequest, kind: str, context: dict[str, object], form: MoveForm | None = None) -> HttpResponse:
    """Step 3: the review. A GET plans again; after a rejected POST the form shows the reason."""
    try:
        scope = form.cleaned_data["scope"] if form is not None else _scope(kind, request.GET)
        return _render_review(request, context, scope, form)
    except Rejected as error:
        return render_page(
            request, "console/move_review.html", {**context, "error": rejection_text(error)}, nav="moves", status=400
        )


def _render_review(
    request: HttpRequest, context: dict[str, object], scope: Scope, form: MoveForm | None = None
) -> HttpResponse:
    if limited():
        # A review shows the partitions that move: those of a drain are of all topics.
        require_role(request, RoleResource.TOPIC, topics_in(scope))
    throttle = form.cleaned_data.get("throttle_bytes_per_s") if form is not None else None
    preview = services.preview_move(scope, throttle)
    copies = sum(len(set(p.replicas_to) - set(p.replicas_from)) for p in preview.parts)
    amount = _("unknown size") if preview.bytes_to_copy is None else size_text(preview.bytes_to_copy)
    removed = sum(len(set(p.replicas_from) - set(p.replicas_to)) for p in preview.parts)
    if isinstance(scope, ReplicationFactorScope):
        button = _("Change replication factor of {topic}").format(topic=scope.topic)
    elif copies:
        button = _("Move {copies}, {amount}").format(copies=counted(copies, "replica"), amount=amount)
    elif removed:
        button = _("Remove {replicas}").format(replicas=counted(removed, "replica"))
    else:
        button = _("Reorder the replicas of {parts}").format(parts=counted(len(preview.parts), "partition"))
    mode = form.cleaned_data.get("mode", "copy") if form is not None else "copy"
    caps = {"parts_in_flight_max": 8, "parts_per_broker_max": 4, "throttle_bytes_per_s": throttle, "mode": mode}
    if form is not None and form.cleaned_data.get("handover"):
        caps["handover"] = form.cleaned_data["handover"]
    form = form or MoveForm(initial={"scope": json.dumps(to_json(scope))})
    if preview.tail.problems:
        cast(forms.ChoiceField, form.fields["mode"]).choices = [("copy", MOVE_MODES["copy", ""][0])]
        form.fields["mode"].help_text = _("The other modes are not available. See the reasons above.")
    if preview.problems:
        # The focus would scroll past the note with the problems.
        form.fields["comment"].widget.attrs.pop("autofocus", None)
    context |= {
        "preview": preview,
        "parts": preview.parts[:PARTS_SHOWN_MAX],
        "copies": copies,
        "button": button,
        "form": form,
        "body": {"scope": to_json(scope), "start": True, **caps},
    }
    status = 409 if form.errors else 200
    return render_page(request, "console/move_review.html", context, nav="moves", status=status)


def _submit(request: HttpRequest, kind: str, context: dict[str, object]) -> HttpResponse:
    form = MoveForm(request.POST)
    if not form.is_valid():
        if "scope" in form.cleaned_data:
            return _review(request, kind, context, form)
        return render_page(
            request,
            "console/move_review.html",
            {**context, "error": _("The form has no reviewed move. Review the move again.")},
            status=400,
        )
    requested_move = form.cleaned_data
    # A plan and an approval request are for the whole cluster: without names the operator role is needed.
    of_topics = request.POST.get("act") not in ("propose", "save")
    require_role(request, RoleResource.TOPIC, topics_in(requested_move["scope"]) if of_topics else ())
    try:
        caps = MoveCaps(
            parts_in_flight_max=requested_move["parts_in_flight_max"],
            parts_per_broker_max=requested_move["parts_per_broker_max"],
            throttle_bytes_per_s=requested_move["throttle_bytes_per_s"],
            compare=requested_move["compare"],
            mode=requested_move["mode"],
            deadline_hours=requested_move["deadline_hours"],
            handover=requested_move["handover"],
        )
        if request.POST.get("act") == "propose":
            return _request_approval(request, requested_move["scope"], requested_move["comment"], caps)
        if request.POST.get("act") == "save":
            plan = plans.save_plan(
                requested_move["scope"], actor=actor(request), comment=requested_move["comment"], override=True
            )
            flash(
                request, _("Plan {id} saved. It locks no partition until a move of it is created.").format(id=plan.pk)
            )
            return redirect_to("plan", plan.pk)
        move = services.plan_move(
            requested_move["scope"], actor=actor(request), comment=requested_move["comment"], **caps
        )
        if request.POST.get("act") == "start":
            services.start_move(move.pk, actor=actor(request), comment=requested_move["comment"])
            flash(request, _("Move {id} started.").format(id=move.pk))
        else:
            flash(request, _("Move {id} planned. Nothing moves until you start it.").format(id=move.pk))
    except Rejected as error:
        form.reject(error)
        return _review(request, kind, context, form)
    return redirect_to("move", move.pk)


def _request_approval(request: HttpRequest, scope: Scope, comment: str, caps: MoveCaps) -> HttpResponse:
    """Plans a move that overrides a safety check and requests the approval of another operator."""
    move = services.plan_move(scope, actor=actor(request), comment=comment, override=True, **caps)
    row = proposals.propose("move.approve", str(move.pk), {"start": True}, actor=actor(request), comment=comment)
    flash(
        request,
        _("Move {id} planned, approval requested. It starts when another operator approves.").format(id=move.pk),
    )
    return redirect_to("proposal", row.pk)
