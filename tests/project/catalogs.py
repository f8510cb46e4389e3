"""The message catalogues in locale/: extraction of the texts, merge into the .po files, compilation to the .mo files.

`python -m tests.project.catalogs` (`make messages`) writes all files; tests/unit/console/test_catalogues.py verifies that it would change none. Works with
Babel and needs no gettext programs. A text is found by the same rules as Django's `makemessages`: tags of templates, calls of gettext functions in
Python and JavaScript. Does not contain: the choice of the language (`weir.languages`).
"""

from __future__ import annotations

import ast
import io
import os
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import django
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

from tests.cluster.local import ROOT

LANGUAGES = {"zh_Hans": "nplurals=1; plural=0;"}
"""Directory in locale/ -> plural forms."""
DOMAINS = ("django", "djangojs", "rest")
PYTHON_KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
}
SENTENCE_CALLS = {
    "sentence": (0,),
    "counted": (1, 2),
    "number_of": (1, 2),
    "Rejected": (0,),
    "AlreadyExists": (0,),
    "PermissionDenied": (0,),
    "not_one_of": (0,),
}
"""Calls of the control plane and of weir_common whose literals the console translates, with the positions of the text and its plural (`weir_common.phrases`)."""
SCRIPT_KEYWORDS = {"gettext": None, "ngettext": (1, 2)}
MO_MAGIC, MO_HEAD_BYTES = 0x950412DE, 28
TEMPLATE_CALL = re.compile(r"(?<![\w.])(n?p?gettext|_)\(\s*(?=['\"u])")


@dataclass(frozen=True, slots=True, order=True)
class CatalogText:
    """A text of the code. `plural` "": it has no plural form."""

    singular: str
    plural: str = ""
    context: str = ""


def _template_texts(path: Path) -> Iterator[CatalogText]:
    """Django converts a template to calls of gettext functions, for xgettext. Here the literals of these calls are read."""
    source = templatize(path.read_text(), origin=str(path))
    for match in TEMPLATE_CALL.finditer(source):
        literals, at = [], match.end()
        while found := re.compile(r"\s*,?\s*u?('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")", re.S).match(source, at):
            literals.append(ast.literal_eval(found.group(1)))
            at = found.end()
        match match.group(1):
            case "gettext" | "_":
                yield CatalogText(literals[0])
            case "ngettext":
                yield CatalogText(literals[0], literals[1])
            case "pgettext":
                yield CatalogText(literals[1], context=literals[0])
            case name:
                raise ValueError(f"{path}: {name} is not supported")


def _code_texts(path: Path, method: str, keywords: Mapping[str, object]) -> Iterator[CatalogText]:
    with path.open("rb") as source:
        for _, message, _, context in extract(
            method, source, keywords=keywords, options={"parse_template_string": True}
        ):  # type: ignore[arg-type]
            if isinstance(message, tuple):
                yield CatalogText(message[0], message[1], context or "")
            elif message:
                yield CatalogText(message, context=context or "")


def _sentences(path: Path) -> Iterator[CatalogText]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        places = SENTENCE_CALLS.get(node.func.id, ())
        found = [node.args[place] for place in places if place < len(node.args)]
        literals = [a.value for a in found if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if places and len(literals) == len(places):
            yield CatalogText(*literals)


def texts(domain: str) -> dict[CatalogText, set[str]]:
    """The texts of the code, with the files that have them."""
    found: dict[CatalogText, set[str]] = {}

    def add(path: Path, of_file: Iterator[CatalogText]) -> None:
        for text in of_file:
            found.setdefault(text, set()).add(str(path.relative_to(ROOT)))

    if domain == "djangojs":
        for path in sorted((ROOT / "static" / "weir").glob("*.js")):
            add(path, _code_texts(path, "javascript", SCRIPT_KEYWORDS))
        return found
    if domain == "rest":
        return {CatalogText(text): {"controlplane/api/reference.py"} for text in rest_texts()}
    for path in sorted((ROOT / "templates").rglob("*.html")):
        add(path, _template_texts(path))
    for singular, plural in vocabulary_texts():
        found.setdefault(CatalogText(singular, plural), set()).add("console/vocabulary.py")
    for package in ("console", "controlplane", "weir"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if b"gettext" in path.read_bytes():
                add(path, _code_texts(path, "python", PYTHON_KEYWORDS))
    for path in sorted([*(ROOT / "controlplane").rglob("*.py"), *(ROOT / "weir_common").rglob("*.py")]):
        if not path.is_relative_to(ROOT / "controlplane" / "management"):
            add(path, _sentences(path))
    for text in [
        t for t in found if t.plural
    ]:  # gettext has one entry for a singular: that with the plural is the translation of both
        found[text] |= found.pop(CatalogText(text.singular, context=text.context), set())
    return found


def vocabulary_texts() -> list[tuple[str, str]]:
    """The constant texts of the domain. The list needs Django's models."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    django.setup()
    from console import vocabulary

    return list(vocabulary.texts())


def rest_texts() -> set[str]:
    """The texts of the API reference, from the OpenAPI schema."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    django.setup()
    from controlplane.api.reference import openapi_schema, pages_of

    found: set[str] = set()

    def collect(text: str) -> str:
        found.add(text)
        return text

    pages_of(openapi_schema(), collect)
    return found


def path_of(language: str, domain: str, suffix: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / f"{domain}.{suffix}"


def read(language: str, domain: str) -> Catalog:
    path = path_of(language, domain, "po")
    if not path.exists():
        return Catalog(locale=language, domain=domain)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain=domain)


def translations(catalog: Catalog) -> dict[CatalogText, tuple[str, ...]]:
    """The translated texts: one string, or one for each plural form."""
    found = {}
    for message in catalog:
        if not message.id:
            continue
        ids = message.id if isinstance(message.id, tuple) else (message.id, "")
        strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
        found[CatalogText(str(ids[0]), str(ids[1]), message.context or "")] = tuple(s or "" for s in strings)
    return found


HEADER = (
    "# The texts of the console. `make messages` adds new texts and removes unused ones (docs/how-to/add-a-text.md).\n"
)


def po_of(language: str, domain: str, strings: dict[CatalogText, tuple[str, ...]]) -> bytes:
    """The .po file with exactly the texts of the code: sorted by text, without line numbers, so that two changes seldom touch the same lines."""
    catalog = Catalog(locale=language)
    for text, files in sorted(texts(domain).items()):
        known = strings.get(text, ("",))
        location = [(min(files), 0)]
        if text.plural:
            catalog.add((text.singular, text.plural), known, context=text.context or None, locations=location)
        else:
            catalog.add(text.singular, known[0], context=text.context or None, locations=location)
    body = io.BytesIO()
    write_po(body, catalog, width=0, omit_header=True, include_lineno=False)
    head = (
        f'{HEADER}msgid ""\nmsgstr ""\n"Language: {language}\\n"\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        f'"Content-Transfer-Encoding: 8bit\\n"\n"Plural-Forms: {LANGUAGES[language]}\\n"\n\n'
    )
    return head.encode() + body.getvalue()


def mo_of(language: str, domain: str) -> bytes:
    """The compiled form of the .po file, as in the manual of GNU gettext ("The Format of GNU MO Files"): two tables of (length, position), sorted by
    text, then the strings. Untranslated texts are left out: the console shows them in English."""
    head = f"Content-Type: text/plain; charset=UTF-8\nPlural-Forms: {LANGUAGES[language]}\n"
    entries = {"": head}
    for text, strings in translations(read(language, domain)).items():
        if all(strings):
            context = f"{text.context}\4" if text.context else ""
            plural = f"\0{text.plural}" if text.plural else ""
            entries[context + text.singular + plural] = "\0".join(strings)
            if plural:  # gettext of Python 3.11.2 (Debian 12) does not find the singular of a text with a plural
                entries.setdefault(context + text.singular, strings[0])
    pairs = sorted((key.encode(), value.encode()) for key, value in entries.items())
    table_bytes, content, tables = 8 * len(pairs), b"", b""
    for column in zip(*pairs, strict=True):
        for string in column:
            tables += struct.pack("<II", len(string), MO_HEAD_BYTES + 2 * table_bytes + len(content))
            content += string + b"\0"
    head_bytes = struct.pack(
        "<7I", MO_MAGIC, 0, len(pairs), MO_HEAD_BYTES, MO_HEAD_BYTES + table_bytes, 0, MO_HEAD_BYTES + 2 * table_bytes
    )
    return head_bytes + tables + content


def main() -> int:
    for language in LANGUAGES:
        for domain in DOMAINS:
            strings = translations(read(language, domain))
            path_of(language, domain, "po").write_bytes(po_of(language, domain, strings))
            path_of(language, domain, "mo").write_bytes(mo_of(language, domain))
            now = translations(read(language, domain))
            print(
                f"{language} {domain}: {len(now)} texts, {sum(not all(s) for s in now.values())} without a translation"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
