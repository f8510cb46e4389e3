"""Texts of cluster documents: what is read, and what is rejected with its line."""

from __future__ import annotations

import json

import pytest

from weir_common.document_text import DOCUMENT_BYTES_MAX, UnreadableDocument, read_document, write_document

DOCUMENT = {"version": 1, "topics": [{"name": "flights", "partitions": 6, "configs": {"retention.ms": "1000"}}]}


def test_yaml_and_json_are_read_and_a_written_document_reads_back() -> None:
    assert read_document(json.dumps(DOCUMENT)) == DOCUMENT
    assert read_document(write_document(DOCUMENT)) == DOCUMENT
    assert read_document("owner: 2026-01-01") == {"owner": "2026-01-01"}, "a date is a text, as in JSON"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topics: [", "line 1"),
        ("topics: []\ntopics: []", "line 2: the key 'topics' is there twice"),
        ("a: &x [1]\nb: *x", "line 2: aliases are not supported"),
        ("- 1", "a document is an object"),
        ("", "a document is an object"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("? [1, 2]\n: 3", "line 1: a key is a text"),
        ("a:\n  1: x", "line 2: a key is a text"),
        ("a: " + "[" * 3_000, ""),
        ("a: " + "x" * DOCUMENT_BYTES_MAX, "divide it"),
    ],
)
def test_another_text_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(UnreadableDocument) as rejection:
        read_document(text)
    assert problem in str(rejection.value)
