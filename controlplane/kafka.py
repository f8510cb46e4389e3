"""The Kafka protocol at the door. Law: every call has a deadline, and no answer is an answer of its own (NoAnswer). Called by the
observer's thread and by `services.groups`; never by a page. Messages of a partition: `selectors.messages`."""

from __future__ import annotations


class NoAnswer(Exception):
    """The cluster did not answer in time: the outcome is unknown."""


class Declined(Exception):
    """The cluster answered with an error; the text says which."""


def delete_group(group_id: str) -> None:
    raise NoAnswer("not built yet")
