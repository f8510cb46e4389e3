"""Notes of a rolling restart, as sentences with values. Pure.

The texts are English and the keys of the catalogues. A pair is the text for one object, and the text for another count."""

from __future__ import annotations

from collections.abc import Iterator

from weir_common.phrases import texts_in

BROKER_UNKNOWN = "Broker {broker} is no longer known."
NOT_RESTARTED = "{count} of {all} brokers were not restarted."
LEADERSHIP_MOVES = "Leadership moves to other brokers."
LEADERS_LEFT = "Leadership moves to other brokers: {count} left."
OLD_STATE = "The observed cluster state is older than {seconds} s: no broker is restarted without current data."
START_OR_CANCEL = "Broker {broker} is down; start it, or cancel."
START_FIRST = "Broker {broker} is down; start it first."
NOT_SAFE = "Not safe to restart yet: {reasons}"
NOT_YET = "Do not restart the broker yet. {reason}"
MORE_PARTITIONS = "... and {count} more."
IN_SYNC = "In sync."
RESTARTED_ELSEWHERE = "The broker was restarted outside this job."
DOWN = "The broker is down."
STAYS_DOWN = (
    "The broker does not register again; check its log. No other broker is restarted before it is available again."
)
SUPERVISOR_RESTARTS = "The supervisor restarts the broker."
SUPERVISOR_LATE = "The supervisor has not restarted the broker yet. Check that it runs (`manage.py status`)."
RESTART_NOW = (
    "Restart broker {broker} now (a clean stop, then a start). The job continues when the broker is available again."
)
CATCHING_UP = (
    "The broker is catching up: {count} replica out of sync.",
    "The broker is catching up: {count} replicas out of sync.",
)
NO_BROKER_LISTED = "The request lists no broker."
UNKNOWN_BROKER = "Broker {broker} does not exist; known brokers: {brokers}."
BROKER_TWICE = "A broker is listed twice."


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    return texts_in(globals())
