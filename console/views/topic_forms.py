"""Create, edit and delete a topic, accept its cluster state, re-replicate one replica. An edit shows a diff first, a deletion its effects."""

from __future__ import annotations

import json
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.config_groups import grouped_configs
from console.forms import DestroyForm, ReasonForm, TopicForm
from console.history_charts import page_charts
from console.next_steps import StepButton, buttons
from console.panels import lazy
from console.views.shell import (
    actor,
    flash,
    not_found,
    operator_required,
    redirect_to,
    rejected,
    render_page,
    viewer_required,
)
from console.vocabulary import rejection_text
from controlplane.domain.config_units import parse_value
from controlplane.domain.text import size_text
from controlplane.domain.topic_states import ConfigSource
from controlplane.monitoring import change_marks
from controlplane.selectors import partitions, recoveries, remote_sizes, topics, truncations
from controlplane.selectors.changes import previous_configs
from controlplane.selectors.next_steps import start_replicas
from controlplane.selectors.retention_effect import RetentionEffect, deletion
from controlplane.services import Rejected, recovery
from controlplane.services import topics as services
from controlplane.services.topic_problems import config_problems


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    clone = request.GET.get("clone", "")
    form = TopicForm(request.POST or None, initial=_like(clone) if clone else {})
    if request.method == "POST" and form.is_valid():
        new_topic = form.cleaned_data
        try:
            services.create_topic(
                new_topic["name"],
                partitions=new_topic["partitions"],
                replication_factor=new_topic["replication_factor"],
                configs=new_topic["configs"],
                actor=actor(request),
                comment=new_topic["comment"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Topic {name} requested. The controller assigns its replicas now.").format(name=new_topic["name"]),
            )
            return redirect_to("topic", new_topic["name"])
    body = {"name": form["name"].value() or "NAME", "partitions": _int(form["partitions"].value(), 3)}
    return render_page(
        request,
        "console/topic_new.html",
        {"form": form, "body": body, "clone": clone},
        nav="topics",
        status=_status(form),
    )


def _like(name: str) -> dict[str, object]:
    """The values of an existing topic for a new one; empty if there is none."""
    detail = topics.topic_detail(name)
    if detail is None:
        return {}
    return {
        "partitions": detail.row.partitions,
        "replication_factor": detail.row.replication_factor,
        "configs": "\n".join(f"{k}={v}" for k, v in sorted(detail.configs.items())),
    }


@operator_required
def alter(request: HttpRequest, name: str) -> HttpResponse:
    """Two steps: the form, then the diff. The second step applies only to the generation that the first step has read."""
    detail = topics.topic_detail(name)
    if detail is None:
        return not_found(request, _("topic {name}").format(name=name), "topics", nav="topics")
    configs = [c for c in topics.topic_configs(name) if not c.is_fixed]  # the service rejects changes of those
    restored = _restored_configs(request, name)
    if chosen := [c for c in configs if c.name in request.GET.getlist("config")]:
        configs = chosen
    elif restored:
        configs = [c for c in configs if c.name in restored]
    context: dict[str, object] = {
        "errors": {},
        "t": detail,
        "groups": grouped_configs(configs, lambda config: config.name),
        "typed": restored,
        "restored_change": request.GET["restore"] if restored else "",
        "partitions": detail.row.partitions,
        "comment": _("Undo of change {id}").format(id=request.GET["restore"]) if restored else "",
    }
    if request.method == "POST" and request.POST.get("step") == "apply":
        try:
            requested = json.loads(request.POST.get("requested", ""))
            services.alter_topic(
                name,
                partitions=requested.get("partitions"),
                set_configs=requested.get("set") or {},
                delete_configs=requested.get("delete") or [],
                actor=actor(request),
                comment=request.POST.get("comment", "")[:500],
                if_generation=requested.get("generation"),
            )
        except Rejected as error:
            return render_page(
                request,
                "console/topic_alter.html",
                {**context, "error": rejection_text(error)},
                nav="topics",
                status=409,
            )
        except (ValueError, AttributeError):
            context["error"] = _("The form has no reviewed change. Enter it again.")
            return render_page(request, "console/topic_alter.html", context, nav="topics", status=400)
        flash(request, _("Change of {name} requested. The audit log shows its outcome.").format(name=name))
        return redirect_to(
            "topic", name, tab="configs" if requested.get("set") or requested.get("delete") else "partitions"
        )
    if request.method == "POST":
        return _review(request, name, detail, configs, context)
    return render_page(request, "console/topic_alter.html", context, nav="topics")


def _restored_configs(request: HttpRequest, name: str) -> dict[str, str]:
    """The configs of the topic before the change that the query names: "" where it had no override. Empty without such a change."""
    row = change_marks.change_row(_int(request.GET.get("restore"), 0))
    return previous_configs(row) if row is not None and row.object_name == name else {}


def _review(
    request: HttpRequest,
    name: str,
    detail: topics.TopicDetail,
    configs: list[topics.ConfigRow],
    context: dict[str, object],
) -> HttpResponse:
    typed = {c.name: request.POST[f"c:{c.name}"].strip() for c in configs if f"c:{c.name}" in request.POST}
    values, errors = _values(typed)
    partitions = _int(request.POST.get("partitions"), -1)
    diff: list[dict[str, object]] = []
    if partitions != detail.row.partitions:
        diff.append({"key": "partitions", "now": detail.row.partitions, "source": "topic", "new": partitions})
    new_values = _new_values(configs, values)
    changed = {name: value for name, value in new_values.items() if value}
    deleted = [name for name, value in new_values.items() if not value]
    for config in configs:
        if config.name in new_values:
            new = new_values[config.name] or _("default ({value})").format(value=config.default)
            diff.append({"key": config.name, "now": config.value, "source": config.source, "new": new})
    context |= {
        "errors": errors,
        "typed": typed,
        "partitions": request.POST.get("partitions", ""),
        "comment": request.POST.get("comment", ""),
    }
    if partitions < 1:
        context["error"] = _("“{value}” is not a number of partitions.").format(
            value=request.POST.get("partitions", "")
        )
    elif errors:
        context["error"] = _("Nothing was changed. Correct the marked values.")
    elif not diff:
        context["error"] = _("No changes: all values are the current values.")
    if context.get("error"):
        return render_page(request, "console/topic_alter.html", context, nav="topics", status=400)
    requested = {
        "partitions": partitions if partitions != detail.row.partitions else None,
        "set": changed,
        "delete": deleted,
        "generation": detail.row.generation,
    }
    body = {"configs": {**changed, **dict.fromkeys(deleted)}, "if_generation": detail.row.generation}
    if requested["partitions"] is not None:
        body["partitions"] = partitions
    return render_page(
        request,
        "console/topic_alter_review.html",
        {
            **context,
            "diff": diff,
            "requested": json.dumps(requested),
            "body": body,
            "grows": requested["partitions"] is not None,
            "deletion": _deletion(name, changed, deleted),
        },
        nav="topics",
    )


def _new_values(configs: list[topics.ConfigRow], values: dict[str, str]) -> dict[str, str]:
    """The configs that change, with their new values; "" = the override is removed. `values`: of the fields of the form."""
    overrides = {c.name: c.value if c.source == ConfigSource.TOPIC else "" for c in configs}
    return {name: values[name] for name, override in overrides.items() if values.get(name, override) != override}


def _deletion(name: str, changed: dict[str, str], deleted: list[str]) -> RetentionEffect | None:
    """The records that this change deletes."""
    known = {c.name: c for c in topics.topic_configs(name)}
    now = {n: c.value for n, c in known.items()}
    return deletion(name, now, {**changed, **{n: known[n].default for n in deleted}})


def _values(typed: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(values without units, the problem of each invalid one), by config. An empty text removes the override."""
    values: dict[str, str] = {}
    errors: dict[str, str] = {}
    for name, text in typed.items():
        try:
            values[name] = parse_value(name, text)
        except ValueError as e:
            errors[name] = str(e)
    return values, {**config_problems({k: v for k, v in values.items() if v}), **errors}


@operator_required
def delete(request: HttpRequest, name: str) -> HttpResponse:
    detail = topics.topic_detail(name)
    if detail is None:
        return not_found(request, _("topic {name}").format(name=name), "topics", nav="topics")
    form = DestroyForm(name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.delete_topic(
                name,
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                confirm_name=form.cleaned_data["confirm_name"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Topic {name} is deleting.").format(name=name))
            return redirect_to("topics")
    return render_page(
        request, "console/topic_delete.html", {"t": detail, "form": form}, nav="topics", status=_status(form)
    )


@require_POST
@operator_required
def adopt(request: HttpRequest, topic_id: UUID) -> HttpResponse:
    try:
        row = services.adopt_topic(topic_id, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse("topics"), nav="topics")
    flash(request, _("Cluster state of {name} accepted as its declared state.").format(name=row.name))
    return redirect_to("topic", row.name)


def _starts(row: partitions.PartitionRow, request: HttpRequest) -> list[StepButton]:
    """Buttons that start the brokers without which the partition has no leader."""
    return list(buttons(start_replicas(row.electable, row.replicas), request.user)) if row.leader is None else []


PARTITION_CHARTS = ("records_per_s", "bytes_in_per_s", "bytes_out_per_s", "size_bytes", "replicas_in_sync")


@viewer_required
def partition(request: HttpRequest, name: str, index: int) -> HttpResponse:
    """One partition with each of its replicas."""
    row = partitions.partition_row(name, index)
    if row is None:
        return not_found(request, _("partition {name}-{index}").format(name=name, index=index), "topics", nav="topics")
    return render_page(
        request,
        "console/partition.html",
        {
            "p": row,
            "p_text": str(index),
            "steps": lazy(lambda: _starts(row, request)),
            "storage": lazy(remote_sizes.partition_storage, name, index),
            "h": lazy(page_charts, request, f"partition:{name}:{index}", *PARTITION_CHARTS),
            "truncations": truncations.partition_truncations(name, index),
            "recoveries": recoveries.recovery_list(topic=name, partition=index, per_page=10).rows,
            "damage_reports": recoveries.damage_report_list(state=recoveries.OPEN, topic=name, partition=index).rows,
        },
        nav="topics",
    )


@operator_required
def recover(request: HttpRequest, name: str, index: int, broker_id: int) -> HttpResponse:
    row = partitions.partition_row(name, index)
    if row is None:
        return not_found(request, _("partition {name}-{index}").format(name=name, index=index), "topics", nav="topics")
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            recovery.recover_replica(name, index, broker_id, actor=actor(request), comment=form.cleaned_data["comment"])
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Re-replication of {name}-{index} on broker {broker_id} requested.").format(
                    name=name, index=index, broker_id=broker_id
                ),
            )
            return redirect_to("partition", name, index)
    replica = next((r for r in row.replica_rows if r.broker_id == broker_id), None)
    source = next((r for r in row.replica_rows if r.is_leader), None)
    leader_bytes = source.size_bytes if source else None
    context = {
        "title": _("Re-replicate {name}-{index} on broker {broker_id}").format(
            name=name, index=index, broker_id=broker_id
        ),
        "form": form,
        "lines": [
            _("The replica on broker {broker_id} ({size}) is deleted.").format(
                broker_id=broker_id, size=_size(None if replica is None else replica.size_bytes)
            ),
            _("The partition has no leader to copy from.")
            if row.leader is None
            else _("Another in-sync replica becomes the leader, and the replica is copied from it.")
            if row.leader == broker_id
            else _("Copied from the leader, broker {leader}: {size}.").format(
                leader=row.leader, size=_size(leader_bytes)
            ),
            _("Until the replica has caught up, {value} of {replicas} replicas are in sync.").format(
                value=len([b for b in row.isr if b != broker_id]), replicas=len(row.replicas)
            ),
            _("The request is rejected if no other replica is alive and in sync."),
        ],
        "button": _("Re-replicate")
        if row.leader is None
        else _("Re-replicate from the new leader")
        if row.leader == broker_id
        else _("Re-replicate from broker {leader}").format(leader=row.leader),
        "back": reverse("partition", args=[name, index]),
        "crumb": f"{name}-{index}",
        "method": "POST",
        "path": "recoveries",
        "body": {"topic": name, "partition": index, "broker_id": broker_id},
    }
    return render_page(request, "console/confirm.html", context, nav="topics", status=_status(form))


def _size(size_bytes: int | None) -> str:
    return _("unknown size") if size_bytes is None else size_text(size_bytes)


def _int(text: object, default: int) -> int:
    try:
        return int(str(text))
    except ValueError:
        return default


def _status(form: forms.BaseForm) -> int:
    return 400 if form.is_bound and form.errors else 200
