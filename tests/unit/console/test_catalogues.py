"""The catalogues have each text of the code, translated, with the same placeholders and tags; the compiled files are those of the texts."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.project import catalogs
from tests.project.catalogs import DOMAINS, LANGUAGES, CatalogText

PLACEHOLDER = re.compile(r"%\(\w+\)s|%%|\{\w*(?:![rs])?(?::[^{}]*)?\}")
GRAMMAR = {"{has}", "{is}", "{s}", "{was}"}
"""Forms of English verbs in the texts of alerts: they have no meaning in a language without them."""
TAG = re.compile(r"</?\w+|&\w+;")
CODE = re.compile(r"`([^`]*)`")
PAIRS = [(language, domain) for language in LANGUAGES for domain in DOMAINS]


def placeholders_of(text: str) -> Counter[str]:
    return Counter(found for found in PLACEHOLDER.findall(text) if found not in GRAMMAR)


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[CatalogText, set[str]]]:
    return {domain: catalogs.texts(domain) for domain in DOMAINS}


@pytest.mark.parametrize(("language", "domain"), PAIRS)
def test_a_catalogue_has_exactly_the_texts_of_the_code(
    language: str, domain: str, texts: dict[str, dict[CatalogText, set[str]]]
) -> None:
    known = catalogs.translations(catalogs.read(language, domain))
    new, unused = texts[domain].keys() - known.keys(), known.keys() - texts[domain].keys()
    assert not new and not unused, (
        f"run `make messages`; new: {sorted(new)[:5]}, not used any more: {sorted(unused)[:5]}"
    )


@pytest.mark.parametrize(("language", "domain"), PAIRS)
def test_each_text_is_translated_with_its_placeholders_and_tags(language: str, domain: str) -> None:
    wrong = []
    for text, strings in catalogs.translations(catalogs.read(language, domain)).items():
        source = text.plural or text.singular
        forms = [text.singular, text.plural] if text.plural else [text.singular]
        for string in strings:
            placeholders = [placeholders_of(form) for form in forms]
            if (
                not string.strip()
                or placeholders_of(string) not in placeholders
                or Counter(TAG.findall(string)) != Counter(TAG.findall(source))
            ):
                wrong.append((text.singular, string))
    assert not wrong, wrong[:10]


@pytest.mark.parametrize(("language", "domain"), PAIRS)
def test_a_text_has_the_plural_forms_of_its_language(language: str, domain: str) -> None:
    forms = int(re.findall(r"nplurals=(\d)", LANGUAGES[language])[0])
    found = catalogs.translations(catalogs.read(language, domain))
    assert {t.singular for t, strings in found.items() if len(strings) != (forms if t.plural else 1)} == set()


@pytest.mark.parametrize(("language", "domain"), PAIRS)
def test_the_compiled_file_has_the_translations_of_the_text_file(language: str, domain: str) -> None:
    compiled = catalogs.path_of(language, domain, "mo").read_bytes()
    assert compiled == catalogs.mo_of(language, domain), "run `make messages`"


def test_the_extraction_finds_texts_of_each_kind(texts: dict[str, dict[CatalogText, set[str]]]) -> None:
    """If the pattern matched no text, all texts would be missing and no test would fail."""
    found = texts["django"]
    assert "templates/console/overview.html" in found[CatalogText("Overview")]
    assert CatalogText("There is no page at <code>%(path)s</code>.") in found
    assert CatalogText("%(affected)s topic", "%(affected)s topics") in found, "plural forms of a template"
    assert CatalogText("{count:,} replica", "{count:,} replicas") in found, "plural forms of Python"
    assert CatalogText("A controller is active") in found, "texts of the domain"
    assert CatalogText("Leader epoch") in found, "a literal in a tag"
    assert CatalogText("The console does not respond.") in texts["djangojs"]


def test_a_description_of_the_rest_api_has_the_code_of_its_text() -> None:
    """Names of fields, parameters and values are the same in each language."""
    for language in LANGUAGES:
        found = catalogs.translations(catalogs.read(language, "rest"))
        assert len(found) > 500
        wrong = [
            t.singular
            for t, (string,) in found.items()
            if Counter(CODE.findall(t.singular)) != Counter(CODE.findall(string))
        ]
        assert not wrong, wrong[:10]
