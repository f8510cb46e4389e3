"""Masking rules: list, create, delete."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms import WeirForm, comment_field
from console.texts import gettext_lazy
from console.views.actions import Deletion, confirm_deletion
from console.views.shell import (
    actor,
    flash,
    list_options,
    not_found,
    operator_required,
    redirect_to,
    render_page,
    viewer_required,
)
from console.vocabulary import rejection_text, translated, word_text
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.masking import MaskTarget
from controlplane.selectors import masking
from controlplane.services import Rejected
from controlplane.services import masking as services


class MaskingRuleForm(WeirForm):
    topics = forms.CharField(
        max_length=249,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("Name of a topic. * matches any characters, for example payments.*"),
    )
    target = forms.ChoiceField(
        label=gettext_lazy("Part"),
        choices=[(t.value, gettext_lazy(t.value)) for t in MaskTarget],
        initial=MaskTarget.VALUE,
    )
    field = forms.CharField(
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Keys and values: a JSON path, for example $.customer.card, $.items.price or $..email. Leave empty to mask all of the key or value. "
            "Headers: the name of the header, where * matches any characters."
        ),
    )
    comment = comment_field()


@viewer_required
def rule_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    found = masking.rule_list(query=query, **list_options(request, "topics"))
    return render_page(request, "console/masking.html", {"page": found, "q": query}, nav="messages")


@operator_required
def create(request: HttpRequest) -> HttpResponse:
    form = MaskingRuleForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        values: dict[str, Any] = dict(form.cleaned_data)
        try:
            services.check_administrator(request.user, AuditOperation.MASKING_CREATE, values["topics"])
            services.create_rule(actor=actor(request), **values)
        except PermissionDenied as error:
            return render_page(
                request, "console/denied.html", {"reason": rejection_text(error)}, nav="messages", status=403
            )
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, _("Masking rule for {topics} created.").format(topics=values["topics"]))
            return redirect_to("masking")
    body = {"topics": "payments.*", "target": "value", "field": "$.customer.card"}
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/masking_new.html", {"form": form, "body": body}, nav="messages", status=status)


@operator_required
def delete(request: HttpRequest, rule_id: int) -> HttpResponse:
    row = masking.rule_row(rule_id)
    if row is None:
        return not_found(request, _("masking rule {rule_id}").format(rule_id=rule_id), "masking", nav="messages")

    def delete_it(comment: str) -> None:
        services.check_administrator(request.user, AuditOperation.MASKING_DELETE, str(rule_id))
        services.delete_rule(rule_id, actor=actor(request), comment=comment)

    deletion = Deletion(
        title=_("Delete the masking rule of topics {topics}").format(topics=row.topics),
        lines=[
            _("Viewers see {target} {value} of topics {topics} again.").format(
                target=translated(word_text(row.target)), value=row.field or _("(whole)"), topics=row.topics
            ),
            _("Created by {created_by}.").format(created_by=row.created_by),
        ],
        button=_("Delete the rule"),
        back=reverse("masking"),
        crumb=_("Masking rules"),
        path=f"masking-rules/{rule_id}",
        message=_("Masking rule {rule_id} deleted.").format(rule_id=rule_id),
        done="masking",
    )
    return confirm_deletion(request, deletion, delete_it, nav="messages")
