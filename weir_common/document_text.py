"""The text of a cluster document: YAML or JSON to plain values, and back.

Invariant: a text has at most DOCUMENT_BYTES_MAX bytes, no repeated key and no alias, so that the values are never larger than the text.
Does not contain: what the values mean (`controlplane/domain/cluster_document.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

DOCUMENT_BYTES_MAX = 2_000_000
"""Bytes of a document: less than Django's limit of a request body, 2.5 MB."""


class UnreadableDocument(ValueError):
    """The text is no YAML or JSON object. The message has the line."""


class _Loader(yaml.SafeLoader):
    """Rejects aliases, which can make a small text large, and repeated keys, of which YAML would use the last one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            reader: Any = self
            event = reader.peek_event()
            raise yaml.composer.ComposerError(
                None, None, "aliases are not supported; repeat the value", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is a text; put it in quotation marks", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# 2026-01-01 is a text, as in JSON.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_document(text: str) -> dict[str, object]:
    """The object in a YAML or JSON text. Raises UnreadableDocument."""
    if len(text.encode()) > DOCUMENT_BYTES_MAX:
        raise UnreadableDocument(f"the document has more than {DOCUMENT_BYTES_MAX} bytes; divide it")
    try:
        value = _Loader(text).get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        mark = getattr(e, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise UnreadableDocument(f"{where}{getattr(e, 'problem', None) or e}") from None
    if not isinstance(value, dict):
        raise UnreadableDocument("a document is an object with topics, acls, quotas or routes")
    return value


def write_document(value: Mapping[str, object]) -> str:
    """The document as YAML, in the order of its fields."""
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, default_flow_style=False, width=120))
