"""Labels of the operations of ACLs in forms: Kafka's word, in other languages than English with its meaning in brackets.

Engineers know the operations by Kafka's words, which `kafka-acls` and the logs of brokers have. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.functional import lazy
from django.utils.translation import gettext, pgettext_lazy

from controlplane.domain.access import AclOperation

MEANINGS: Mapping[str, object] = {
    AclOperation.ALL: pgettext_lazy("operation of an ACL", "all"),
    AclOperation.READ: pgettext_lazy("operation of an ACL", "read"),
    AclOperation.WRITE: pgettext_lazy("operation of an ACL", "write"),
    AclOperation.CREATE: pgettext_lazy("operation of an ACL", "create"),
    AclOperation.DELETE: pgettext_lazy("operation of an ACL", "delete"),
    AclOperation.ALTER: pgettext_lazy("operation of an ACL", "alter"),
    AclOperation.DESCRIBE: pgettext_lazy("operation of an ACL", "describe"),
    AclOperation.CLUSTER_ACTION: pgettext_lazy("operation of an ACL", "cluster action"),
    AclOperation.DESCRIBE_CONFIGS: pgettext_lazy("operation of an ACL", "describe configs"),
    AclOperation.ALTER_CONFIGS: pgettext_lazy("operation of an ACL", "alter configs"),
    AclOperation.IDEMPOTENT_WRITE: pgettext_lazy("operation of an ACL", "idempotent write"),
    AclOperation.CREATE_TOKENS: pgettext_lazy("operation of an ACL", "create tokens"),
    AclOperation.DESCRIBE_TOKENS: pgettext_lazy("operation of an ACL", "describe tokens"),
    AclOperation.TWO_PHASE_COMMIT: pgettext_lazy("operation of an ACL", "two phase commit"),
}


def operation_text(operation: str) -> str:
    """The label in the language of the request."""
    word, meaning = operation.replace("_", " "), str(MEANINGS[operation])
    return word if meaning == word else gettext("{word} ({meaning})").format(word=word, meaning=meaning)


operation_label = lazy(operation_text, str)
"""The label of `operation_text`, translated when a form is shown."""


def operation_choices(operations: Iterable[str]) -> list[tuple[str, str]]:
    """(operation, label) for the field of a form."""
    return [(o, operation_label(o)) for o in operations]
