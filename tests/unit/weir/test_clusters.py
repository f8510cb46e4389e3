"""The file of other consoles."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from weir.clusters import read_consoles

ENTRY = "- {name: production, url: 'https://weir.example.org', colour: red, token_file: a.token}\n"


def test_tokens_are_read_from_files_beside_the_list(tmp_path: Path) -> None:
    assert read_consoles(None) == ()
    path = tmp_path / "clusters.yaml"
    path.write_text(ENTRY + "- {name: b, url: 'http://localhost:1', token: weir_b}\n")
    (tmp_path / "a.token").write_text("weir_a\n")
    assert [(c.name, c.token, c.colour) for c in read_consoles(path)] == [
        ("production", "weir_a", "red"),
        ("b", "weir_b", "none"),
    ]
    path.write_text("")
    assert read_consoles(path) == ()


@pytest.mark.parametrize("content", ["a: [", "a: 1", ENTRY, ENTRY.replace("red", "pink")])
def test_a_file_that_cannot_be_used_ends_the_process_with_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text(content)
    with pytest.raises(ImproperlyConfigured, match="cannot be used"):
        read_consoles(path)
    (tmp_path / "a.token").write_text("\n")
    with pytest.raises(ImproperlyConfigured):
        read_consoles(path)
    with pytest.raises(ImproperlyConfigured):
        read_consoles(tmp_path / "none.yaml")
