"""How a value looks: numbers, ages, state words, replica chips. Law: a page and a live update render a figure with the same function, so
what changes in place looks as if the page had been read anew; unknown is a dash with a reason, never a zero.

Called by the template tags and by `cells`. Must not come in: selectors, requests, colour for anything but state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.words import size_text

UNKNOWN_REASON = "Not known yet: no broker has answered for it."

# The one table of state words: amber degraded, red data at risk, blue in progress, grey unknown or over; "" is calm and has no colour.
TONES: dict[str, str] = {
    # health, brokers
    "healthy": "", "degraded": "amber", "at_risk": "red", "unknown": "grey", "alive": "", "down": "red", "silent": "amber",
    "cordoned": "amber", "leaders_off": "amber", "restarting": "blue", "catching_up": "blue", "skipped": "grey", "empty": "", "corrupt": "red", "disk": "red", "lost": "amber", "diverged": "amber",
    # topics, partitions, replicas
    "active": "", "in_sync": "", "creating": "blue", "changing": "blue", "deleting": "blue", "drift": "amber", "moving": "blue",
    "offline": "red", "under_replicated": "amber", "out_of_sync": "amber", "leader": "", "follower": "",
    # groups and lag
    "Stable": "", "PreparingRebalance": "blue", "CompletingRebalance": "blue", "Assigning": "blue", "Reconciling": "blue", "Empty": "grey", "Dead": "grey",
    "OK": "", "IDLE": "grey", "WARN": "amber", "STALL": "red", "STOP": "red", "REWIND": "amber", "OVERTAKEN": "red",
    "UNKNOWN": "grey",
    # moves, parts, recoveries, jobs
    "planned": "grey", "approved": "grey", "running": "blue", "paused": "grey", "verifying": "blue", "cancelling": "blue",
    "rolling_back": "blue", "done": "", "cancelled": "grey", "rolled_back": "grey", "failed": "red", "waiting": "grey",
    "seeding": "blue", "following": "blue", "ready": "", "cutting": "amber", "unfit": "red", "cut_due": "amber", "ordered": "blue", "copying": "blue", "untouched": "grey", "put_back": "grey", "stuck": "red", "asked": "blue",
    "no_space": "amber", "target_down": "red", "source_down": "red", "throttle": "amber", "fetch_error": "amber", "controller": "amber",
    "will_not_finish": "amber", "reset": "blue", "stopping": "blue", "stopped": "grey",
    # plans, proposals
    "saved": "grey", "dropped": "grey",
    "open": "amber", "rejected": "grey", "withdrawn": "grey", "expired": "grey",
    # changes
    "pending": "blue", "confirmed": "", "unchanged": "grey", "refused": "amber",
    # acls
    "allow": "", "deny": "",
}  # fmt: skip


def unknown(reason: str = UNKNOWN_REASON) -> SafeString:
    return format_html('<span class="unk" title="{}">–</span>', reason)


def number(value: float | int | None, reason: str = UNKNOWN_REASON) -> SafeString:
    """Whole numbers with thousands marks, others with one place."""
    if value is None:
        return unknown(reason)
    if isinstance(value, float) and value == 0:
        return mark_safe('<span class="zero">0</span>')
    return format_html("{}", f"{value:,.1f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}")


def count(value: int | None, tone: str) -> SafeString:
    """A number that is a state when it is not zero: zero recedes, others take the tone."""
    if value is None:
        return unknown()
    if value == 0:
        return mark_safe('<span class="zero">0</span>')
    return format_html('<b class="t-{}">{}</b>', tone, f"{value:,}")


def megabytes(value: int | None, reason: str = UNKNOWN_REASON) -> SafeString:
    """Bytes as a number of MB (10^6), for columns with the unit in the header."""
    if value is None:
        return unknown(reason)
    mb = value / 1e6
    if value == 0:
        return mark_safe('<span class="zero">0</span>')
    return format_html("{}", f"{mb:,.0f}" if mb >= 100 else f"{mb:,.1f}" if mb >= 0.9995 else f"{mb:.3f}")


def size(value: float | int | None) -> SafeString:
    """Bytes with their unit, for prose and single figures."""
    if value is None:
        return unknown()
    return format_html("{}", size_text(value))


def speed(bytes_per_s: float | None) -> SafeString:
    if not bytes_per_s:
        return unknown("Nothing was copied yet, or it is over.")
    return format_html("{}/s", size_text(bytes_per_s))


def seconds(ms: int | None, reason: str = UNKNOWN_REASON) -> SafeString:
    """Milliseconds as seconds, for columns with the unit in the header."""
    if ms is None:
        return unknown(reason)
    if ms == 0:
        return mark_safe('<span class="zero">0</span>')
    return format_html("{}", f"{ms / 1000:,.1f}" if ms < 100_000 else f"{ms / 1000:,.0f}")


def duration_text(value_s: float) -> str:
    """Seconds in the two units that matter."""
    s = int(value_s)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return _two(s // 60, "min", s % 60 if s < 600 else 0, "s")
    if s < 86400:
        return _two(s // 3600, "h", s % 3600 // 60, "min")
    return _two(s // 86400, "d", s % 86400 // 3600, "h")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large} {unit} {small} {part}" if small else f"{large} {unit}"


NO_LIMIT = "no limit"


def config_text(name: str, value: str) -> str:
    """What a person reads in a config's value: NO_LIMIT, a length of time or a size; "" where the value says it all."""
    try:
        amount = int(value)
    except ValueError:
        return ""
    if amount == 2**63 - 1 or (amount == -1 and name.startswith("retention.")):
        return NO_LIMIT
    if name.endswith(".bytes"):
        return size_text(amount) if amount >= 1000 else ""
    if name.endswith(".ms") and amount >= 1000:
        for unit, ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
            if amount % ms == 0:
                return f"{amount // ms} {unit}"
        return duration_text(amount / 1000)
    return ""


def age(value_s: float | None) -> SafeString:
    return unknown("Never read.") if value_s is None else format_html("{}", duration_text(value_s))


def throttle(bytes_per_s: int | None) -> SafeString:
    if bytes_per_s is None:
        return mark_safe('<span class="sub">none</span>')
    return format_html("{}/s", size_text(bytes_per_s))


def eta(bounds: Sequence[float] | None, needs_bytes_per_s: int | None = None) -> SafeString:
    """An end as a range; a single figure would promise what nobody knows. More comes in than is copied: what it would need."""
    if needs_bytes_per_s is not None:
        return format_html(
            '{} <span class="sub">needs {}/s</span>', state("will_not_finish"), size_text(needs_bytes_per_s)
        )
    if not bounds:
        return unknown("Not enough was copied yet to say.")
    return format_html("{} – {}", duration_text(bounds[0]), duration_text(bounds[1]))


NO_END = {
    "planned": "It has not begun.", "approved": "It has not begun.", "paused": "It is paused.",
    "done": "It has ended.", "cancelled": "It has ended.", "rolled_back": "It has ended.", "failed": "It has ended.",
}  # fmt: skip
"""Of a move's states those in which no end is to be told."""


def ends(
    word: str, waits_for: str, bounds: Sequence[float] | None, needs_bytes_per_s: int | None, in_words: bool = False
) -> SafeString:
    """When a move ends, or why that is not said. `in_words`: where it waits, for what, instead of a dash."""
    if waits_for and in_words:
        return format_html('<span class="sub">waits for {}</span>', waits_for)
    why = f"It waits for {waits_for}." if waits_for else NO_END.get(word)
    return unknown(why) if why is not None else eta(bounds, needs_bytes_per_s)


def instant(at: datetime | None) -> SafeString:
    if at is None:
        return unknown("It has not happened.")
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        at.isoformat(), at.strftime("%Y-%m-%d %H:%M:%S"), at.strftime("%m-%d %H:%M:%S"),
    )  # fmt: skip


def instant_ms(ms: int | None) -> SafeString:
    """A record's timestamp, with its milliseconds."""
    if ms is None:
        return unknown("The record has no timestamp.")
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return format_html("{}", ms)
    return format_html('<time title="{}">{}</time>', ms, f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}")


def state(word: str) -> SafeString:
    """A state word in its tone. The mark in front differs per tone, so that no state rests on colour alone."""
    tone = TONES.get(word, "grey")
    return format_html('<span class="st st-{}">{}</span>', tone or "calm", word.replace("_", " "))


def standing(word: str, waits_for: str) -> SafeString:
    """A move's state, and where none of its partitions goes on, what they wait for."""
    return format_html('{} <span class="sub">waits for {}</span>', state(word), waits_for) if waits_for else state(word)


def chips(
    replicas: Iterable[int],
    isr: Iterable[int] | None = None,
    leader: int | None = None,
    adding: Iterable[int] = (),
    removing: Iterable[int] = (),
) -> SafeString:
    """Replicas as brokers in their tints: the leader marked, those out of the ISR struck, those joining or leaving with + or −.
    `isr` None = membership is not the subject."""
    in_sync = None if isr is None else set(isr)
    joining, leaving = set(adding), set(removing)
    looks = ((b, b == leader, b in joining, b in leaving, in_sync is not None and b not in in_sync) for b in replicas)
    return mark_safe("".join(_chip(*look) for look in looks))


@lru_cache(maxsize=4096)
def _chip(broker: int, leads: bool, joins: bool, leaves: bool, out: bool) -> SafeString:
    """Kept: a page of a hundred partitions shows six hundred of them, of as many looks as a cluster has brokers, and they were a fifth of its work."""
    words, classes, mark = [f"broker {broker}"], [f"b b{broker % 8}"], ""
    if leads:
        words.append("leader")
        classes.append("lead")
    if joins:
        words.append("joining")
        classes.append("join")
        mark = "+"
    elif leaves:
        words.append("leaving")
        classes.append("leave")
        mark = "−"
    if out:
        words.append("not in sync")
        if not joins:
            classes.append("out")
    return format_html('<i class="{}" title="{}">{}{}</i>', " ".join(classes), ", ".join(words), mark, broker)


def broker_chip(broker: int | None, reason: str = "No leader.") -> SafeString:
    if broker is None:
        return format_html('<span class="st st-red" title="{}">none</span>', reason)
    return format_html('<i class="b b{}">{}</i>', broker % 8, broker)


def bar(done: float | None, tone: str = "blue") -> SafeString:
    """Per cent as a bar. The number beside it is the truth; the bar is for the eye."""
    value = 0.0 if done is None else done
    return format_html('<progress class="bar bar-{}" max="100" value="{}">{}%</progress>', tone, value, value)
