"""Texts of the domain that pages show in the language of the user: health checks, titles and next steps of alerts, labels of values, states.

The domain knows no languages. Its constant texts are English, and they are the keys of the catalogues. Invariant: `texts` lists each text that
`translated` is called with; tests/unit/console/test_catalogues.py compares the list with the catalogues.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import get_language, gettext, ngettext

from console import durations
from console.states import OUTCOME_LABELS, STATE_LABELS, TONES
from console.texts import in_brackets, text_of_phrase
from controlplane.domain import (
    alert,
    alert_phrases,
    alert_thresholds,
    anomaly,
    audit_operation,
    balance_types,
    cluster_document,
    cluster_health,
    cron,
    delayed_messages,
    external_login,
    group_config,
    healing,
    health,
    history,
    leader_election,
    move_phrases,
    page_phrases,
    planner_phrases,
    restart_phrases,
    schema_encoding,
    wait_reason,
)
from controlplane.domain.acl_templates import TEMPLATES
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.alert_types import AlertKind, AlertMetric, AlertParts, ClientRejection
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.balance_types import Goal
from controlplane.domain.document_values import ResourceKind
from controlplane.domain.history import METRICS
from controlplane.domain.login_advice import LOGIN_ADVICE
from controlplane.domain.masking import MaskTarget
from controlplane.domain.notification import DeliveryEvent
from controlplane.domain.produce import CopyTimestamp
from controlplane.domain.progress import StallCause
from controlplane.domain.proposal import KIND_LABELS
from controlplane.domain.roles import RoleResource
from controlplane.domain.share_lag import ShareStall
from controlplane.domain.window import DAYS
from controlplane.selectors import connect as connect_selectors
from controlplane.selectors import top
from controlplane.selectors.brokers import REJECTION_REASONS
from controlplane.selectors.messages import PROBLEM_TEXTS
from controlplane.selectors.topics import CONFIG_DOCS
from controlplane.services import alert_thresholds as alert_thresholds_service
from controlplane.services import (
    authorization,
    common,
    connect,
    dead_letters,
    half_messages,
    masking,
    notification_channels,
    overrides,
    produce,
    record_encoding,
    records,
    role_bindings,
    tails,
    transactions,
)
from weir_common import spark_jobs
from weir_common.lake import COLUMN_MEANINGS
from weir_common.phrases import Phrase, TranslatableText, render

LISTED = (
    "ACLs",
    "alerts",
    "archives",
    "brokers",
    "changes",
    "channels",
    "clients",
    "configs",
    "connectors",
    "deliveries",
    "differences",
    "failures",
    "groups",
    "half messages",
    "jobs",
    "masking rules",
    "role bindings",
    "moves",
    "offset resets",
    "partitions",
    "plans",
    "quotas",
    "recoveries",
    "replicas",
    "reports",
    "requests",
    "resource patterns",
    "restarts",
    "routes",
    "rows",
    "runs",
    "share groups",
    "silences",
    "steps",
    "subjects",
    "tokens",
    "topics",
    "transactional IDs",
    "users",
)
"""Nouns of the rows of lists, for the line below a list."""


FIELD_LABELS = (
    "Applies to",
    "Bindings",
    "Configs",
    "Count",
    "Days",
    "Description",
    "Directory",
    "Enabled",
    "Field",
    "First offset",
    "Goals",
    "Group",
    "Header",
    "Headers",
    "Host",
    "Iterations",
    "Json",
    "Key",
    "Key format",
    "Last offset",
    "Limit",
    "Mechanism",
    "Mechanisms",
    "Minutes",
    "Name",
    "Offset",
    "Operation",
    "Owner",
    "Partition",
    "Partitions",
    "Password",
    "Pattern type",
    "Permission",
    "Principal",
    "Replication factor",
    "Resource name",
    "Resource type",
    "Schedule",
    "Scope",
    "Source partition",
    "Start",
    "Target",
    "Template",
    "Time",
    "Timestamp",
    "Tombstone",
    "Topic",
    "Topics",
    "User",
    "Value",
    "Value format",
)
"""Labels of form fields that Django makes of the names of the fields."""

OTHER = (
    *("archive", "connector", "plan", "recovery", "restart", "throttle bytes per s", "token"),
    "automatic",
    "text",
    "integer",
    "float",
    "auto",
    "light",
    "dark",
    "contrast",
    "all",
    "change",
    "election",
    "alert",
    "note",
    "Archived offsets",
    "acknowledged",
    "opened",
    "resolved",
    "silenced",
    "notified",
    "leaders off",
    "replicas off",
)
"""Themes, and kinds of marks and entries."""


REJECTIONS = (
    alert_thresholds_service.NEEDS_ADMINISTRATOR,
    authorization.HIDDEN_OBJECT,
    authorization.HOW_TO_GET,
    authorization.NEEDS_CLUSTER_VIEWER,
    authorization.NEEDS_OPERATOR,
    common.READ_ONLY,
    connect.CHANGED_MEANWHILE,
    connect_selectors.NO_CLUSTER,
    dead_letters.TIME_OVER,
    half_messages.GONE,
    masking.NEEDS_ADMINISTRATOR,
    notification_channels.NEEDS_ADMINISTRATOR,
    record_encoding.NO_REGISTRY,
    role_bindings.NEEDS_ADMINISTRATOR,
    schema_encoding.TOO_DEEP,
    tails.NOT_READ,
    tails.NOT_READ_FROM,
    produce.MASKED_SOURCE,
    produce.NEEDS_PERMISSION,
    records.LOOK_UP_MASKED,
    records.NEEDS_ADMINISTRATOR,
    records.NEEDS_PERMISSION,
)
"""Rejections that are constants of services. Rejections that are literals of calls are found by `make messages`."""


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "") of the domain and of LISTED."""
    for rule in health.RULES:
        yield from ((t, "") for t in (rule.title, rule.impact, rule.do))
    yield from ((title, "") for title in alert_thresholds.TITLES.values())
    for action in healing.RULES.values():
        yield from ((action.text, ""), (action.when, ""))
    yield from ((threshold.text, "") for threshold in alert_thresholds.RULES.values())
    yield from ((watched.label, "") for watched in anomaly.WATCHED)
    yield from ((metric.label, "") for metrics in history.METRICS.values() for metric in metrics)
    yield from ((metric.label, "") for metrics in top.METRICS.values() for metric in metrics)
    yield from ((text, "") for pair in balance_types.OBSTACLE_TEXTS.values() for text in pair)
    yield from balance_types.NOTE_TEXTS.values()
    yield from ((advice, "") for advice in LOGIN_ADVICE.values())
    yield from ((short, "") for short in alert.BRIEFS.values())
    yield from ((text, "") for r in alert.RULES for text in (r.text, r.do))
    yield from alert_phrases.texts()
    yield from cluster_health.texts()
    yield from move_phrases.texts()
    yield from ((text, "") for text in (cluster_document.TOO_MANY, *cluster_document.SAME_RESOURCE.values()))
    yield from page_phrases.texts()
    yield from ((text, "") for text in COLUMN_MEANINGS.values())
    yield from ((label, "") for label in audit_operation.LABELS.values())
    yield from ((text, "") for text in PROBLEM_TEXTS.values())
    yield from planner_phrases.texts()
    yield from restart_phrases.texts()
    yield from ((text, "") for text in REJECTIONS)
    yield from overrides.texts()
    yield from (
        (text, "")
        for table in (half_messages.DONE, half_messages.EFFECTS, half_messages.TITLES)
        for text in table.values()
    )
    yield from ((text, "") for text in transactions.VERDICT_TEXTS.values())
    yield from ((text, "") for text in leader_election.VERDICT_TEXTS.values())
    yield from ((word_text(cause), "") for cause in StallCause)
    yield from ((sentence, "") for sentence in external_login.REJECTIONS.values())
    yield from ((word_text(word.partition(".")[2] or word), "") for word in TONES if word not in STATE_LABELS)
    yield from ((word, "") for word in OUTCOME_WORDS if word not in OUTCOME_LABELS)
    yield from ((word_text(kind), "") for kind in (*WORDS, *OBJECTS))
    yield from ((text, "") for text in wait_reason.TEXTS.values())
    yield from ((doc, "") for doc in (*CONFIG_DOCS, *group_config.DOCS))
    yield from ((label, "") for label, _ in delayed_messages.SPANS)
    yield from ((label, "") for label in (delayed_messages.OVERDUE, delayed_messages.LATER, "Stop", "Resume"))
    yield from ((label, "") for label in KIND_LABELS.values())
    yield from ((template.doc, "") for template in TEMPLATES.values())
    yield from ((word_text(name), "") for name in TEMPLATES)
    for job in spark_jobs.KINDS.values():
        yield from ((job.title, ""), (job.summary, ""))
        yield from ((text, "") for p in job.parameters for text in (p.label, p.help, p.unit) if text)
    yield from ((word, "") for word in (*DAYS, *FIELD_LABELS, *OTHER, *Goal, *(name for name, *_ in cron.FIELDS)))
    yield from map(_counted_forms, LISTED)
    yield from ((resource.value, f"{resource.value}s") for resource in RoleResource)


def threshold_title(name: str) -> str:
    return translated(alert_thresholds.TITLES[ThresholdName(name)])


WORDS = (
    *AlertKind,
    *health.CheckState,
    *healing.HealingAction,
    *healing.HealingMode,
    *REJECTION_REASONS,
    *LOGIN_ADVICE,
    *ShareStall,
    *alert_thresholds.ThresholdScope,
    *alert_thresholds.ThresholdUnit,
    *anomaly.Baseline,
    *CopyTimestamp,
    *MaskTarget,
    *DeliveryEvent,
    *ResourceKind,
    *top.UNITS_IN_HEADS,
)
"""Kinds and states that are shown as words."""

OBJECTS = (
    *("console_user", "document", "lake", "masking", "notification", "proposal", "records", "scram"),
    "share_group",
    *("spark_job", "threshold", "transaction"),
)
"""Kinds of objects of changes that are not also texts of pages."""

OUTCOME_WORDS = ("failed", "pending", "unknown")


STORED_WORDS: dict[str, str] = {
    AlertKind.CLIENT_REJECTED: "client rejected",
    StallCause.REJECTED: "rejected",
    "proposal": "approval request",
    "acl": "ACL",
}
"""Words for codes that are stored, or that other programs read, with another word."""


def word_text(word: str) -> str:
    """Return a state such as `under_min_isr` with spaces between its words."""
    return STORED_WORDS.get(word, str(word).replace("_", " "))


def singular(what: str) -> str:
    return what[:-3] + "y" if what.endswith("ies") else what[:-1]


def translated(text: object) -> str:
    """A text of `texts`, or a sentence with values, in the language of the request. Another text, for example a name, does not change."""
    if isinstance(text, TranslatableText):
        return _phrase_of(text) or text
    return gettext(str(text)) if text else ""


def sentence_text(text: str) -> str:
    """A sentence with values in the language of the request. Another text, which is of a user, does not change."""
    return _phrase_of(text) or text


def rejection_text(error: Exception) -> str:
    """The reason of a Rejected or a PermissionDenied in the language of the request."""
    return translated(error.args[0]) if error.args else ""


def listed(what: str, count: int) -> str:
    """`1 job`, `2 jobs` in the language of the request. `what`: one of LISTED."""
    one, many = _counted_forms(what)
    return ngettext(one, many, count).format(count=f"{count:,}")


def _counted_forms(what: str) -> tuple[str, str]:
    """The text with the count of each noun is one text, because its measure word differs in Chinese."""
    return f"{{count}} {singular(what)}", f"{{count}} {what}"


def operation_text(code: str) -> str:
    """The label of a code of the audit log in the language of the request."""
    return translated(audit_operation.operation_label(code))


def operations_with(query: str) -> list[AuditOperation]:
    """The operations whose labels in the language of the request contain the text."""
    return [o for o, label in audit_operation.LABELS.items() if query.lower() in translated(label).lower()]


def alert_text(kind: str, subject: str, text: str, parts: AlertParts | None = None) -> str:
    """The text of an alert with its names and values. Without the phrase of which it was made, other languages show the short text of its kind."""
    if (get_language() or "en") == "en":
        return text
    return _phrase_of(text) or alert_title(kind, subject, text, parts)


def _phrase_of(text: str) -> str:
    """The text in the language of the request; "" if it has no phrase, or if a version before this one stored the values of another text."""
    if not isinstance(text, TranslatableText):
        return ""
    try:
        return phrase_text(text.phrase)
    except (KeyError, IndexError):
        return ""


def phrase_text(phrase: Phrase) -> str:
    """The text in the language of the request. Raises KeyError for a text whose placeholders have no values."""
    return render(phrase, text_of_phrase, durations.localized)


def alert_title(kind: str, subject: str, text: str, parts: AlertParts | None = None) -> str:
    """The short text of an alert, as `controlplane.domain.alert.brief`, in the language of the request. `parts`: of a subject that has several."""
    english = (get_language() or "en") == "en"
    short = alert.BRIEFS.get(AlertKind(kind), text if english else word_text(kind))
    if "{}" not in short:
        return translated(short)
    if subject:
        return translated(short).format(_subject_text(subject, parts))
    return text if english else translated(word_text(kind))


def _subject_text(subject: str, parts: AlertParts | None) -> str:
    """The object of an alert. A metric and the reason of a rejection have names in the language of the request."""
    match parts:
        case AlertMetric(name, kind, object_name):
            label = next((m.label for m in METRICS[kind] if m.name == name), name)
            return in_brackets(translated(label), object_name or translated("cluster"))
        case ClientRejection(client, reason):
            return in_brackets(client, translated(word_text(reason)))
        case _:
            return subject


def alert_do(kind: str, do: str) -> str:
    """The advice for an alert. Without the phrase of which it was made, it is translated if it has no values."""
    if (get_language() or "en") == "en":
        return do
    return _phrase_of(do) or translated(do)
