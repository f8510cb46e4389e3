"""Thresholds of alerts: list, change, values for single objects."""

from __future__ import annotations

import re

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console import vocabulary
from console.alert_forms import ThresholdForm, ThresholdOverrideForm
from console.views.shell import (
    actor,
    flash,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from console.vocabulary import rejection_text
from controlplane.domain.alert_thresholds import ThresholdScope
from controlplane.selectors import alert_thresholds
from controlplane.services import Rejected
from controlplane.services import alert_thresholds as services

ALERT_ID = re.compile(r"[0-9]{1,18}")


@viewer_required
def threshold_list(request: HttpRequest) -> HttpResponse:
    context = {"rows": alert_thresholds.threshold_list(), "tab": "thresholds"}
    return render_page(request, "console/alert_thresholds.html", context, nav="alerts")


@operator_required
def edit(request: HttpRequest, name: str) -> HttpResponse:
    row = alert_thresholds.threshold_row(name)
    if row is None:
        return not_found(request, _("alert threshold “{name}”").format(name=name), "alert-thresholds", nav="alerts")
    form = ThresholdForm(row, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.check_administrator(request.user, name)
            services.alter_threshold(
                name,
                form.cleaned_data["value"],
                actor=actor(request),
                comment=form.cleaned_data["comment"],
                if_version=form.cleaned_data["version"],
            )
        except PermissionDenied as error:
            return render_page(
                request, "console/denied.html", {"reason": rejection_text(error)}, nav="alerts", status=403
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(
                request,
                _("Threshold {value} changed. It applies within seconds.").format(
                    value=vocabulary.threshold_title(name)
                ),
            )
            return redirect_to("alert-thresholds")
    context = {"t": row, "form": form, "path": f"alert-thresholds/{name}", "body": {"value": row.default}}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/alert_threshold_edit.html", context, nav="alerts", status=status)


@operator_required
def override(request: HttpRequest, name: str) -> HttpResponse:
    """The value of a threshold for one object, that of the query at first. The form leads back to the alert of the query."""
    row = alert_thresholds.threshold_row(name)
    if row is None or row.objects == ThresholdScope.CLUSTER:
        return not_found(request, _("alert threshold “{name}”").format(name=name), "alert-thresholds", nav="alerts")
    subject = request.GET.get("subject", "")
    alert_id = request.GET.get("alert", "")
    back = reverse("alert", args=[int(alert_id)]) if ALERT_ID.fullmatch(alert_id) else reverse("alert-thresholds")
    own = next((o.value for o in row.overrides if o.subject == subject), None)
    initial = {"subject": subject, "value": None if own is None else f"{own:g}"}
    form = ThresholdOverrideForm(row, request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        override_values = form.cleaned_data
        try:
            services.override_threshold(
                name,
                override_values["subject"],
                override_values["value"],
                actor=actor(request),
                comment=override_values["comment"],
                if_version=override_values["version"],
            )
        except Rejected as error:
            form.reject(error)
        else:
            text = _("Threshold {value} changed for {subject}. It applies within seconds.")
            flash(request, text.format(value=vocabulary.threshold_title(name), subject=override_values["subject"]))
            return redirect(back)
    body = {"value": row.default, "comment": "COMMENT"}
    path = f"alert-thresholds/{name}/overrides/{subject or 'NAME'}"
    context = {"t": row, "form": form, "path": path, "body": body, "back": back}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/alert_threshold_override.html", context, nav="alerts", status=status)
