"""Runbooks: one for each kind of alert, in each language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from console import runbooks
from controlplane.domain.alert_types import AlertKind
from tests.cluster.local import ROOT

FOLDER = ROOT / "docs" / "runbooks"
CODES = [code for code, _ in settings.LANGUAGES]
OTHER = [code for code in CODES if code != settings.LANGUAGE_CODE]


@pytest.mark.parametrize("language", CODES)
@pytest.mark.parametrize("kind", list(AlertKind))
def test_each_kind_of_alert_has_a_runbook_with_steps(kind: AlertKind, language: str) -> None:
    text = runbooks.html(kind, language)
    assert text is not None and text.count("<h1>") == 1 and text.count("<li>") >= 2


def test_there_is_no_runbook_of_an_unknown_kind() -> None:
    assert runbooks.html("../../SECURITY", "en") is None
    for folder in (FOLDER, *(FOLDER / code for code in OTHER)):
        assert {p.stem for p in folder.glob("*.md")} == set(AlertKind), folder


def outline(path: Path) -> dict[str, list[str]]:
    """The parts that do not depend on the language: levels of headings, numbers of steps, commands and names, and the documents that the links lead to."""
    text = path.read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    return {
        "headings": re.findall(r"^#+ ", text, flags=re.M),
        "steps": re.findall(r"^\d+\. ", text, flags=re.M),
        "code": sorted(re.findall(r"`[^`]+`", text)),
        "configs": sorted(re.findall(r"\b[a-z]+(?:\.[a-z]+)+\b(?!\.?md)", re.sub(r"`[^`]+`|\([^)]*\.md\)", "", text))),
        "links": [str((path.parent / link).resolve().relative_to(ROOT)).replace("/zh-hans/", "/") for link in links],
    }


@pytest.mark.parametrize("language", OTHER)
@pytest.mark.parametrize("kind", list(AlertKind))
def test_a_translated_runbook_has_the_steps_commands_and_links_of_the_english_one(
    kind: AlertKind, language: str
) -> None:
    assert outline(FOLDER / language / f"{kind}.md") == outline(FOLDER / f"{kind}.md")


@pytest.mark.django_db
def test_the_page_has_the_runbook_of_its_language(operator: Client) -> None:
    english = operator.get("/runbooks/broker_down/").content.decode()
    chinese = operator.get("/runbooks/broker_down/", HTTP_ACCEPT_LANGUAGE="zh-CN").content.decode()
    assert "<h1>Broker down</h1>" in english and "处理步骤" not in english
    assert "<h1>Broker 宕机</h1>" in chinese and "处理步骤" in chinese and "What to do" not in chinese


@pytest.mark.parametrize("language", CODES)
def test_a_link_of_a_runbook_leads_to_a_page_of_the_console(language: str) -> None:
    expired = str(runbooks.html("half_expired", language))
    assert 'href="/runbooks/half_undecided/"' in expired
    growing = str(runbooks.html("dead_letters_growing", language))
    assert "<code>docs/how-to/retry-and-dead-letters.md</code>" in growing and "href" not in growing
