"""Errors that services and selectors raise for input that cannot be carried out."""

from __future__ import annotations


class Rejected(Exception):
    """`field` names the invalid input. "" = no input is invalid: the state of the cluster prevents the operation, and a later attempt may succeed."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


class AlreadyExists(Rejected):
    """An object of this name exists. Kafka has a separate error code for this case."""
