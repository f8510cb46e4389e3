"""The codes of problems, and the document that lists them."""

from __future__ import annotations

import re

import pytest

from controlplane.api.problems import STATUS, TITLES, FieldCode, ProblemCode, code_of
from tests.cluster.local import ROOT


def test_every_code_has_a_status_and_a_title() -> None:
    assert STATUS.keys() == TITLES.keys() == set(ProblemCode)


def test_the_document_lists_every_code_with_its_status() -> None:
    text = (ROOT / "docs" / "rest.md").read_text()
    listed = {code: int(status) for code, status in re.findall(r"^\| `(\w+)` \| (\d{3}) \|", text, flags=re.M)}
    assert listed == {code.value: int(status) for code, status in STATUS.items()}
    fields = text.partition("`code` in `errors`")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", fields)) == {code.value for code in FieldCode}


@pytest.mark.parametrize(
    ("status", "code"), [(400, "invalid"), (418, "invalid"), (404, "not_found"), (502, "internal_error")]
)
def test_a_status_has_a_general_code(status: int, code: str) -> None:
    assert code_of(status) == code
