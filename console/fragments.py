"""HTML of values: numbers, ages, states, replica chips.

A page and a live update use the same function for a value, so an updated cell equals a reloaded one. An unknown value is a dash with a reason,
never a zero. Colour means state only. Does not read the database or the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext as _

from console import durations
from console.states import BLOCKS, LAG_STATUSES, OUTCOME_LABELS, SHARE_LAG_STATUSES, STATE_LABELS, TONES
from console.texts import gettext_lazy
from controlplane.domain.config_units import parse_value
from controlplane.domain.text import coarse_count, needed_count, size_text
from controlplane.domain.topic_states import TopicHealth, TopicRowState
from weir_common.durations import Duration, DurationUnit

UNKNOWN_REASON = gettext_lazy("Unknown: no broker has reported this value yet.")


def unknown(reason: str = UNKNOWN_REASON) -> SafeString:
    return _not_reported(get_language()) if reason is UNKNOWN_REASON else _unknown(reason)


@lru_cache(maxsize=8)
def _not_reported(language: str | None) -> SafeString:
    """Return the cell of an unknown value. It is cached by the active language, because most unknown values of a page have this reason."""
    return _unknown(UNKNOWN_REASON)


def _unknown(reason: str) -> SafeString:
    return format_html('<span class="unk" title="{}">–</span>', reason)


def _plain(text: str) -> SafeString:
    """Return a number with its unit, which has no character to escape. `format_html` takes several times as long, for hundreds of cells of a page."""
    return SafeString(text)


ZERO = SafeString('<span class="zero">0</span>')


def of_total(part: object, total: object) -> SafeString:
    """A part and its total, as the pages show them."""
    return format_html(_("{part} of {total}"), part=part, total=total)


def number(value: float | None, reason: str = UNKNOWN_REASON) -> SafeString:
    """Integers with thousands separators, small floats with one decimal."""
    if value is None:
        return unknown(reason)
    if isinstance(value, float) and value == 0:
        return ZERO
    return _plain(f"{value:,.1f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}")


def count(value: int | None, tone: str) -> SafeString:
    """A number that means a problem unless it is zero: zero is faint, other values have the tone."""
    if value is None:
        return unknown()
    if value == 0:
        return ZERO
    return format_html('<b class="t-{}">{}</b>', tone, f"{value:,}")


def size_cell(value: float | None, reason: str = UNKNOWN_REASON) -> SafeString:
    """Bytes with a unit that fits, for columns and figures. Lists sort by the number of bytes, on the server."""
    if value is None:
        return unknown(reason)
    return ZERO if value == 0 else _plain(size_text(value))


def size(value: float | None) -> SafeString:
    """Bytes with a unit, for sentences and single values."""
    if value is None:
        return unknown()
    return _plain(size_text(value))


def speed(bytes_per_s: float | None) -> SafeString:
    if not bytes_per_s:
        return unknown(_("No bytes are being copied."))
    return format_html("{}/s", size_text(bytes_per_s))


def rate(bytes_per_s: float | None) -> SafeString:
    """Bytes per second with a unit, for single values and columns of different sizes."""
    if bytes_per_s is None:
        return unknown()
    if not bytes_per_s:
        return ZERO
    return _plain(f"{size_text(bytes_per_s)}/s")


AT_LEAST_REASON = gettext_lazy(
    "A lower bound: the record is older than the console's first observation of this partition."
)


def lag_time(ms: int | None, at_least: bool = False, reason: str = UNKNOWN_REASON) -> SafeString:
    """A lag in milliseconds as a duration. `at_least`: a lower bound, `> 42 s`."""
    if ms is None:
        return unknown(reason)
    if ms == 0 and not at_least:
        return ZERO
    shown = durations.lag_time(ms)
    return format_html('<span title="{}">&gt; {}</span>', AT_LEAST_REASON, shown) if at_least else shown


def lag_status(word: str, block: str = "") -> SafeString:
    """Status of a group, in one partition or overall, with the reason if it is blocked."""
    return _lag_status(word, block, get_language())


def share_lag_status(word: str, block: str = "") -> SafeString:
    """Status of a share group, in one partition or overall, with the reason if it is blocked."""
    return _status_with_block(SHARE_LAG_STATUSES.get(word, SHARE_LAG_STATUSES["unknown"]), block)


@lru_cache(maxsize=1024)
def _lag_status(word: str, block: str, language: str | None) -> SafeString:
    return _status_with_block(LAG_STATUSES.get(word, LAG_STATUSES["unknown"]), block)


def _status_with_block(status: tuple[str, str, str], block: str) -> SafeString:
    label, tone, explanation = status
    cause = BLOCKS.get(block, "")
    mark = format_html('<span class="st st-{}" title="{}">{}</span>', tone or "calm", cause or explanation, label)
    return format_html('{} <span class="sub">{}</span>', mark, cause) if cause else mark


def retention_in(in_s: float | None, at_most: bool = False) -> SafeString:
    """Seconds until retention deletes unread records. `at_most`: an upper bound, `< 10 min`."""
    if in_s is None:
        return unknown(_("Not expected at the current rates."))
    tone = "red" if in_s <= 1800 else "amber"
    return format_html(
        '<b class="t-{}">{}{}</b>', tone, "< " if at_most else "", durations.coarse(in_s, at_most=at_most)
    )


def group_pace(
    consumed_per_s: float | None,
    produced_per_s: float | None,
    lag_records: int | None,
    retention_partition: str = "",
    retention_in_s: float | None = None,
    retention_limit: str = "",
    retention_at_most: bool = False,
) -> SafeString:
    """Consume rate, produce rate, catch-up forecast and retention forecast of a group, in one sentence. Empty without lag."""
    if not lag_records:
        return mark_safe("")
    if consumed_per_s is None or produced_per_s is None:
        return format_html("{}", _("Rates and forecasts are unknown: not enough samples yet."))
    gain = consumed_per_s - produced_per_s
    parts = [
        _("Reads {consumed_per_s} records/s, {produced_per_s}/s arrive").format(
            consumed_per_s=coarse_count(consumed_per_s), produced_per_s=coarse_count(produced_per_s)
        )
    ]
    if gain > 0.02 * produced_per_s and gain > 0:
        parts.append(_("caught up in {lag_records}").format(lag_records=durations.duration(lag_records / gain)))
    else:
        if -gain > 0.02 * produced_per_s:
            parts.append(_("lag grows by {value} records a minute").format(value=coarse_count(-gain * 60)))
        parts.append(
            _("needs {produced_per_s} records/s to catch up within an hour").format(
                produced_per_s=needed_count(produced_per_s + lag_records / 3600)
            )
        )
    pace = _("; ").join(parts) + _(".")
    if retention_in_s is None:
        return format_html("{}", pace)
    if not retention_partition:  # its topic is hidden from the user
        loss = _("{limit} deletes unread records of another topic in {time}.")
    elif retention_at_most:
        loss = _("{limit} deletes unread records of {partition} within {time}.")
    else:
        loss = _("{limit} deletes unread records of {partition} in {time}.")
    return format_html(
        '{} <b class="t-{}">{}</b>',
        pace,
        "red" if retention_in_s <= 1800 else "amber",
        loss.format(
            limit=retention_limit,
            partition=retention_partition,
            time=durations.coarse(retention_in_s, at_most=retention_at_most),
        ),
    )


def topic_size(size_bytes: int | None, as_of_age_s: float | None) -> SafeString:
    """A size, with its age if the brokers do not respond."""
    shown = size_cell(size_bytes)
    if size_bytes is None:
        return shown
    return with_age(shown, as_of_age_s, _("Last known size: a broker with these partitions does not respond."))


def with_age(html: SafeString, age_s: float | None, reason: str) -> SafeString:
    """A value with its age. None: it is current."""
    if age_s is None:
        return html
    age_text = _("{age} old").format(age=durations.coarse(age_s))
    return format_html('{} <small class="t-amber" title="{}">{}</small>', html, reason, age_text)


def topic_state(state_word: str, health: str) -> SafeString:
    """State of a topic: the pending change, else the health of its partitions."""
    return state(state_word if state_word != TopicRowState.ACTIVE or health == TopicHealth.HEALTHY else health)


NO_LIMIT = gettext_lazy("unlimited")
MS_PER_UNIT = (
    (DurationUnit.DAY, 86_400_000),
    (DurationUnit.HOUR, 3_600_000),
    (DurationUnit.MINUTE, 60_000),
    (DurationUnit.SECOND, 1000),
)
NUMERIC = "num"
"""Kind of a column of numbers: aligned to the right, sorted by the greatest value first."""


def config_text(name: str, value: str) -> str:
    """A config value for people, in the language of the request: NO_LIMIT, a duration or a size; "" if the raw value is clear."""
    words = _config_words(name, value)
    return durations.localized(words) if isinstance(words, Duration) else words


def _config_words(name: str, value: str) -> str | Duration:
    """As `config_text`. A form reads the English text."""
    try:
        amount = int(value)
    except ValueError:
        return ""
    if amount == 2**63 - 1 or (amount == -1 and name.startswith("retention.")):
        return NO_LIMIT
    if name.endswith(".bytes"):
        return exact_size(amount) if amount >= 1000 else ""
    if name.endswith(".ms") and amount >= 1000:
        for unit, ms in MS_PER_UNIT:
            if amount % ms == 0:
                return Duration.of(str(amount // ms), unit)
        return Duration.of(str(amount / 1000), DurationUnit.SECOND)
    return ""


def exact_size(amount: int) -> str:
    """Bytes in the largest binary unit that divides them, `1 GiB`; others in a rounded decimal one."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if amount and amount % size == 0:
            return f"{amount // size} {unit}"
    return size_text(amount)


def exact_text(name: str, value: str) -> str:
    """A config value as it can be typed: in words if the form reads exactly this value from them."""
    words = str(_config_words(name, value))
    try:
        return words if words and parse_value(name, words) == value else value
    except ValueError:
        return value


def age(value_s: float | None) -> SafeString:
    return unknown(_("No sample yet.")) if value_s is None else format_html("{}", durations.duration(value_s))


def throttle(bytes_per_s: int | None) -> SafeString:
    if bytes_per_s is None:
        return format_html('<span class="sub">{}</span>', _("none"))
    return format_html("{}/s", size_text(bytes_per_s))


def instant(at: datetime | None, reason: str = gettext_lazy("Not yet.")) -> SafeString:
    """A time in UTC, without its year if it is the current one."""
    if at is None:
        return unknown(reason)
    at = at.astimezone(UTC)
    whole = at.strftime("%Y-%m-%d %H:%M:%S")
    shown = whole if at.year != datetime.now(UTC).year else whole[len("2000-") :]
    return format_html('<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(timespec="seconds"), whole, shown)


def process(pid: int | None) -> SafeString:
    return unknown(_("No process is running.")) if pid is None else format_html("{}", pid)


def instant_ms(ms: int | None) -> SafeString:
    """A record's timestamp, with its milliseconds."""
    if ms is None:
        return unknown(_("The record has no timestamp."))
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return format_html("{}", ms)
    return format_html('<time title="{}">{}</time>', ms, f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}")


def state(word: str, object_kind: str = "") -> SafeString:
    """A state in its tone. The mark before it differs per tone, so no state depends on colour alone. `object_kind`: if a
    state of this kind has a different tone ("part.rejected")."""
    return _state(word, object_kind, get_language())


@lru_cache(maxsize=1024)
def _state(word: str, object_kind: str, language: str | None) -> SafeString:
    return _markup(f"{object_kind}.{word}" if f"{object_kind}.{word}" in TONES else word, state_label(word))


def state_label(word: str) -> str:
    return STATE_LABELS[word] if word in STATE_LABELS else gettext(word.replace("_", " "))


def code_spans(text: str) -> SafeString:
    """A text with its `code` marked up."""
    parts = re.split(r"`([^`]+)`", text)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if n % 2 else part,) for n, part in enumerate(parts))
    )


def outcome(word: str) -> SafeString:
    """The outcome of a change in the audit log. An unknown one needs a check, so it has an alert and the tone of one."""
    own_tone = f"outcome.{word}"
    return _markup(own_tone if own_tone in TONES else word, outcome_label(word))


def outcome_label(word: str) -> str:
    return OUTCOME_LABELS[word] if word in OUTCOME_LABELS else gettext(word)


def _markup(word: str, label: str) -> SafeString:
    return format_html('<span class="st st-{}">{}</span>', TONES.get(word, "grey") or "calm", label)


def chips(
    replicas: Iterable[int],
    isr: Iterable[int] | None = None,
    leader: int | None = None,
    adding: Iterable[int] = (),
    removing: Iterable[int] = (),
    down: Iterable[int] = (),
) -> SafeString:
    """Replicas as coloured broker ids. The leader is framed; replicas outside the ISR or on a dead broker are struck through; adding and
    removing replicas have + and −. `isr` None: do not mark ISR membership."""
    in_sync = None if isr is None else set(isr)
    joining, leaving, dead = set(adding), set(removing), set(down)
    arguments = (
        (b, b == leader, b in joining, b in leaving, in_sync is not None and b not in in_sync, b in dead)
        for b in replicas
    )
    language = get_language()
    return mark_safe("".join(_chip(*a, language) for a in arguments))


@lru_cache(maxsize=4096)
def _chip(broker: int, leads: bool, joins: bool, leaves: bool, out: bool, down: bool, language: str) -> SafeString:
    """Cached: a page of 100 partitions has 600 chips with few distinct arguments; they took a fifth of its render time."""
    words, classes, mark = [_("broker {broker}").format(broker=broker)], [f"b b{broker % 8}"], ""
    if leads:
        words.append(_("leader"))
        classes.append("lead")
    if joins:
        words.append(_("adding"))
        classes.append("join")
        mark = "+"
    elif leaves:
        words.append(_("removing"))
        classes.append("leave")
        mark = "−"
    if out:
        words.append(_("not in sync"))
        if not joins:
            classes.append("out")
    if down:
        words.append(_("down"))
        classes.append("out down")
    return format_html(
        '<i class="{}" title="{}">{}{}</i>',
        " ".join(dict.fromkeys(" ".join(classes).split())),
        _(", ").join(words),
        mark,
        broker,
    )


def broker_chip(broker: int | None, reason: str = gettext_lazy("No leader.")) -> SafeString:
    if broker is None:
        return format_html('<span class="st st-red" title="{}">{}</span>', reason, _("none"))
    return SafeString(f'<i class="b b{broker % 8}">{broker:d}</i>')


def bar(done: float | None, tone: str = "blue") -> SafeString:
    """A progress bar. `done` in per cent."""
    value = 0.0 if done is None else done
    return format_html('<progress class="bar bar-{}" max="100" value="{}">{}%</progress>', tone, value, value)
