"""The object of a change in the audit log: its name in words, and a link to its page."""

from __future__ import annotations

from typing import Protocol

from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.vocabulary import threshold_title, translated, word_text
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.anomaly import WATCHED_OF
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.proposal import KIND_LABELS, ProposalKind
from controlplane.selectors.quotas import entity_name
from controlplane.services.leader_elections import ALL_TOPICS


class ShownChange(Protocol):
    verb: str
    object_kind: str
    object_name: str


OBJECT_PAGES = {
    "topic": "topic",
    "move": "move",
    "plan": "plan",
    "group": "group",
    "share_group": "share-group",
    "broker": "broker",
    "restart": "restart",
    "archive": "job",
    "scram": "user",
    "route": "route",
}
"""Kind of a change's object -> URL name of its page, whose argument is the object's name."""
GROUP_CONFIG_OPERATIONS = (AuditOperation.GROUP_CONFIGS, AuditOperation.GROUP_SET)
"""They have the page of the configs: the object can be a consumer group or a share group."""


def object_text(change: ShownChange) -> str:
    """The name of the object of a change, with words in place of stored codes."""
    name = str(change.object_name)
    first, _, rest = name.partition(" ")
    match change.object_kind:
        case AccessRecordKind.QUOTA if name.startswith("{"):
            return entity_name(name)
        case "threshold" if name in list(ThresholdName):
            return threshold_title(name)
        case "alert" if first in list(AlertKind):
            return f"{translated(word_text(first))} {rest}".rstrip()
        case "proposal" if first in KIND_LABELS:
            return f"{translated(KIND_LABELS[ProposalKind(first)])} ({rest})"
        case "anomaly" if name in WATCHED_OF:
            return translated(WATCHED_OF[name].label)
    return name


def _page_argument(kind: str, name: str) -> str:
    """The argument of the page of a change's object. A SCRAM change names a credential, `<mechanism>:<user>`, and the page is that of the user."""
    return name.partition(":")[2] or name if kind == AccessRecordKind.SCRAM and name.startswith("SCRAM-") else name


def object_link(change: ShownChange) -> SafeString:
    """The object of a change, as a link if it has a page."""
    name = change.object_name
    if change.object_kind not in OBJECT_PAGES or not name or name == ALL_TOPICS:
        return format_html("{}", object_text(change))
    try:
        page = "group-configs" if change.verb in GROUP_CONFIG_OPERATIONS else OBJECT_PAGES[change.object_kind]
        address = reverse(page, args=[_page_argument(change.object_kind, name)])
    except NoReverseMatch:
        return format_html("{}", name)
    return format_html('<a href="{}">{}</a>', address, name)
