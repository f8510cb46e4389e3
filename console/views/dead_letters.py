"""Dead letters of a topic: the list with its filters, and the form to send them again: the chosen ones, all that match, or one after an edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.dead_letter_forms import MATCHING_MAX, DeadLetterForm, EditForm, SendForm
from console.history_charts import page_charts
from console.panels import lazy
from console.record_links import record_url
from console.texts import counted
from console.views.shell import flash, not_found, operator_required, redirect_to, rejected, render_page, viewer_required
from console.vocabulary import rejection_text
from controlplane.domain.dead_letters import ResendTarget
from controlplane.selectors import dead_letters as selectors
from controlplane.selectors.dead_letters import DeadLetterTopic
from controlplane.selectors.message_metrics import metrics_of
from controlplane.services import Rejected, produce
from controlplane.services import dead_letters as services
from controlplane.services.dead_letter_batches import ResendResult

CONTINUE = "resume"
"""Hidden field: the token that continues a sending by filter."""
LETTERS_SHOWN_MAX = 20
"""Maximum number of dead letters that a form names."""


@viewer_required
def dead_letters(request: HttpRequest, name: str) -> HttpResponse:
    of = selectors.dead_letter_topic(name)
    if of is None:
        return _no_topic(request, name)
    form = DeadLetterForm(request.GET)
    filters = {n: str(v) for n, v in request.GET.items() if n in form.fields and v}
    metrics = metrics_of(name)
    context: dict[str, object] = {
        "of": of,
        "form": form,
        "query": urlencode(filters),
        "filtered": bool(filters),
        "metrics": metrics,
        "send_all": _send_all(filters, None if metrics is None else metrics.dead_letters),
        "h": lazy(page_charts, request, f"topic:{name}", "dead_letters"),
    }
    if form.is_valid():
        try:
            context["found"] = services.dead_letters(
                request.user, name, form.query(of.dead_topic), request.GET.get("resume", "")
            )
        except Rejected as error:
            form.reject(error)
        except PermissionDenied as error:
            context["may_not"] = rejection_text(error)
    status = 403 if "may_not" in context else 400 if form.errors else 200
    return render_page(request, "console/dead_letters.html", context, nav="topics", status=status)


@operator_required
def send(request: HttpRequest, name: str) -> HttpResponse:
    """The chosen dead letters: `place` is partition@offset, once or more."""
    places = _places([*request.GET.getlist("place"), *request.POST.getlist("place")])
    if not places:
        return rejected(request, Rejected(_("Select at least one dead letter.")), _list_url(name), nav="topics")
    of = selectors.dead_letter_topic(name)
    if of is None:
        return _no_topic(request, name)
    form = SendForm(name, of.kind, request.POST if request.POST.get("step") == "apply" else None)

    def act() -> ResendResult | None:
        return services.send(request.user, name, places, target=form.target, comment=form.cleaned_data["comment"])

    chosen = [{"partition": p, "offset": o} for p, o in places]
    body = {"places": chosen, "target": _target(of), "comment": "COMMENT"}
    count = counted(len(places), "dead letter")
    context = {
        "title": _("Send {count} of {name} again").format(count=count, name=name),
        "lines": _lines(request, of),
        "button": _("Send {count}").format(count=count),
        "chosen": [f"{p}@{o}" for p, o in places],
        **_shown_letters(of, places, _("The first {shown} of {count}")),
        "hidden": {"step": "apply"},
        "path": f"topics/{name}/dead-letters/send",
        "body": body,
    }
    return _form(request, of, form, act, context)


@operator_required
def send_matching(request: HttpRequest, name: str) -> HttpResponse:
    """Send all dead letters that match the filter in the address, a few hundred per request."""
    filters = DeadLetterForm(request.GET)
    if not filters.is_valid():
        return rejected(
            request, Rejected(_("The filter is not valid. Correct it on the list.")), _list_url(name), nav="topics"
        )
    of = selectors.dead_letter_topic(name)
    if of is None:
        return _no_topic(request, name)
    form = SendForm(name, of.kind, request.POST or None)
    resume = request.POST.get(CONTINUE, "")

    def act() -> ResendResult | None:
        query = filters.query(name, MATCHING_MAX)
        return services.send_matching(
            request.user, name, query, target=form.target, resume=resume, comment=form.cleaned_data["comment"]
        )

    chosen = {n: v for n, v in request.GET.items() if n in filters.fields and v}
    which = [f"{filters.fields[n].label or n}: {v}." for n, v in chosen.items()] or [_("No filter: all dead letters.")]
    context = {
        "title": _("Send all matching dead letters of {name} again").format(name=name),
        "lines": [
            *which,
            _("A request sends at most {matching_max}, oldest first. The page then offers to continue.").format(
                matching_max=MATCHING_MAX
            ),
            *_lines(request, of),
        ],
        "button": _("Send matching dead letters"),
        **({} if form.is_bound else _newest_matching(request, of, filters)),
        "hidden": {CONTINUE: resume},
        "path": f"topics/{name}/dead-letters/send-matching",
        "body": {**filters.body(), "limit": MATCHING_MAX, "target": _target(of), "comment": "COMMENT"},
    }
    return _form(request, of, form, act, context)


@operator_required
def edit(request: HttpRequest, name: str, partition: int, offset: int) -> HttpResponse:
    of = selectors.dead_letter_topic(name)
    try:
        letter = services.record_to_resend(request.user, name, partition, offset)
    except PermissionDenied as error:
        return render_page(request, "console/denied.html", {"reason": rejection_text(error)}, nav="topics", status=403)
    except Rejected as error:
        return rejected(request, error, _list_url(name), nav="topics")
    if of is None or letter is None:
        return _no_topic(request, name)
    form = EditForm(name, of.kind, letter.record, letter.to_partition, request.POST or None)
    headers = [] if of.of_share_groups else [{"name": "x-retry-group", "value": "GROUP"}]

    def act() -> ResendResult | None:
        comment = form.cleaned_data["comment"]
        edited = form.record()
        return services.send(
            request.user, name, [(partition, offset)], target=form.target, edited=edited, comment=comment
        )

    context = {
        "title": _("Edit and send a dead letter of {name} again").format(name=name),
        "lines": [
            _("The dead letter at offset {offset} of partition {partition} stays as it is.").format(
                offset=offset, partition=partition
            ),
            *_lines(request, of),
        ],
        "button": _("Send edited record"),
        "hidden": {},
        "path": f"topics/{name}/dead-letters/send-edited",
        "body": {
            "partition": partition,
            "offset": offset,
            "target": _target(of),
            "key": form["key"].value() or None,
            "value": form["value"].value(),
            "headers": headers,
            "comment": "COMMENT",
        },
    }
    return _form(request, of, form, act, context)


def _form(
    request: HttpRequest,
    letters: DeadLetterTopic,
    form: SendForm,
    act: Callable[[], ResendResult | None],
    context: Mapping[str, object],
) -> HttpResponse:
    """The form, and after a POST its result: on the list, or on this page if the sending continues."""
    name = letters.topic
    shown = {**context, "name": name, "form": form, "back": _list_url(name), "method": "POST"}
    status = 200
    if form.is_bound and form.is_valid():
        try:
            result = act()
        except PermissionDenied as error:
            return render_page(
                request, "console/denied.html", {"reason": rejection_text(error)}, nav="topics", status=403
            )
        except Rejected as error:
            form.reject(error)
        else:
            if result is None:
                return _no_topic(request, name)
            if not result.resume and not result.problems:
                flash(request, _summary(result))
                return redirect_to("dead-letters", name)
            shown |= {"result": result, "summary": _summary(result)}
            if result.resume:
                shown |= {"hidden": {CONTINUE: result.resume}, "button": _("Continue")}
    if form.is_bound and form.errors:
        status = 400
    return render_page(request, "console/dead_letter_send.html", shown, nav="topics", status=status)


def _summary(result: ResendResult) -> str:
    parts = [_("{sent} sent to {target}.").format(sent=result.sent, target=result.target)]
    for number, text in (
        (result.already, _("sent before; not sent again.")),
        (result.missing, _("not in the log any more.")),
        (result.refused, "rejected."),
        (result.unknown, _("with unknown outcome.")),
    ):
        if number:
            parts.append(f"{number} {text}")
    return " ".join(parts)


def _send_all(filters: Mapping[str, str], letters: int | None) -> str:
    """Label of the button that sends all of the filter. Without a filter: with the number of all."""
    if filters:
        return _("Send all matching again")
    return _("Send all again") if letters is None else _("Send all {letters} again").format(letters=f"{letters:,}")


def _newest_matching(request: HttpRequest, letters: DeadLetterTopic, filters: DeadLetterForm) -> dict[str, object]:
    """The newest dead letters of the filter; empty if the user may not read them or the filter is rejected, which the form says when it is sent."""
    try:
        found = services.dead_letters(
            request.user, letters.topic, filters.query(letters.dead_topic, LETTERS_SHOWN_MAX + 1)
        )
    except (PermissionDenied, Rejected):
        return {}
    places = [] if found is None else [(r.record.partition, r.record.offset) for r in found.rows]
    return _shown_letters(letters, places, _("The newest {shown} that match"))


def _shown_letters(letters: DeadLetterTopic, places: Sequence[tuple[int, int]], part: str) -> dict[str, object]:
    """The rows of the table of what is sent. `part`: its title if there are more."""
    rows = selectors.chosen_letters(letters, places[:LETTERS_SHOWN_MAX])
    title = part.format(shown=len(rows), count=len(places)) if len(rows) < len(places) else ""
    return {
        "letters": [(r, record_url(letters.dead_topic, r.partition, r.offset)) for r in rows],
        "letters_title": title,
    }


def _lines(request: HttpRequest, letters: DeadLetterTopic) -> list[str]:
    lines = [_("Each dead letter is written to a target at most once, even if this request is repeated.")]
    if letters.of_share_groups:
        lines += [
            _("The failed record is read from its topic, and written again with its key, value and headers."),
            _("In its topic, all groups that read the topic receive the record."),
            _(
                "In the retry topic, only the share group that the dead letter names processes the record. "
                "Its members must subscribe to the retry topic."
            ),
        ]
    else:
        text = _(
            "{name}.retry: only the group in x-retry-group processes it, with its first attempt. {name}: all groups do."
        )
        lines.append(text.format(name=letters.topic))
    return [*lines, *filter(None, [produce.produce_denial(request.user, letters.topic)])]


def _target(letters: DeadLetterTopic) -> str:
    """The target in the REST call of a page."""
    return (ResendTarget.TOPIC if letters.of_share_groups else ResendTarget.RETRY).value


def _places(texts: list[str]) -> list[tuple[int, int]]:
    """Parse partition@offset. Invalid texts are ignored, because the list of dead letters creates these addresses."""
    found: dict[tuple[int, int], None] = {}
    for text in texts:
        partition, __, offset = text.partition("@")
        if all(t.isascii() and t.isdigit() and len(t) < 19 for t in (partition, offset)):
            found[int(partition), int(offset)] = None
    return list(found)


def _list_url(name: str) -> str:
    return reverse("dead-letters", args=[name])


def _no_topic(request: HttpRequest, name: str) -> HttpResponse:
    return not_found(request, _("topic with dead letters “{name}”").format(name=name), "topics", nav="topics")
