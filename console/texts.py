"""Texts of the console in the language of the request: lazy texts of module constants, counted nouns.

Invariants: a text is English in the code and is translated when it is shown. Nothing that is stored, logged or sent to a program is translated. Does
not contain: the catalogues (locale/), the choice of the language (`weir.languages`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from django.conf import settings
from django.utils import translation
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import get_language, gettext, ngettext

FULL_WIDTH = frozenset({"zh-hans"})
"""Languages whose punctuation marks contain their space."""
SPACE_AFTER_MARK = re.compile(r"([、，。；：！？])((?:\s|<[^<>]*>)+)")
TAG = re.compile(r"<[^<>]*>")
SEVERAL = re.compile(r"\{part_0\}(?: \{part_\d+\})+")
"""The form of sentences with spaces between them."""


def gettext_lazy(message: str, **values: object) -> str:
    """Django's gettext_lazy with the values of the placeholders, typed as the text that it becomes. For texts outside of functions. A function that
    needs a real str (`str.join`) takes `str(text)`."""
    text = translation.gettext_lazy(message)
    return cast(str, format_lazy(text, **values) if values else text)


def known_language(code: object) -> str:
    """`code` if it is a language of the console, else English."""
    return code if isinstance(code, str) and code in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


def has_full_width_marks() -> bool:
    """Return whether the language of the request writes no space after a punctuation mark."""
    return get_language() in FULL_WIDTH


def without_spaces_after_marks(html: str) -> SafeString:
    """Sentences of a template without the white space between them, in a language of FULL_WIDTH. In other languages they do not change. `html`: safe."""
    if has_full_width_marks():
        html = SPACE_AFTER_MARK.sub(lambda found: found[1] + "".join(TAG.findall(found[2])), html)
    return SafeString(html)


def text_of_phrase(one: str, many: str, count: int) -> str:
    """The translation of the text of a phrase. The form of sentences one after another (`weir_common.phrases.joined`) has none; Chinese has no spaces
    in it. `many` "": the text has no plural."""
    if many:
        return ngettext(one, many, count)
    return one.replace("} {", "}{") if SEVERAL.fullmatch(one) and has_full_width_marks() else gettext(one)


def in_brackets(text: str, addition: str) -> str:
    """A text with an addition in the brackets of the language."""
    return gettext("{text} ({addition})").format(text=text, addition=addition)


def enumerated(values: Iterable[object]) -> SafeString:
    """The values with the comma of the language between them, escaped for HTML."""
    return format_html_join(gettext(", "), "{}", ((value,) for value in values))


def counted(count: int, noun: str) -> str:
    """`1 partition`, `2 partitions`. `noun`: a key of the table, in English."""
    match noun:
        case "ACL":
            text = ngettext("{count:,} ACL", "{count:,} ACLs", count)
        case "active partition":
            text = ngettext("{count:,} active partition", "{count:,} active partitions", count)
        case "alert":
            text = ngettext("{count:,} alert", "{count:,} alerts", count)
        case "broker":
            text = ngettext("{count:,} broker", "{count:,} brokers", count)
        case "dead letter":
            text = ngettext("{count:,} dead letter", "{count:,} dead letters", count)
        case "finished partition":
            text = ngettext("{count:,} finished partition", "{count:,} finished partitions", count)
        case "partition":
            text = ngettext("{count:,} partition", "{count:,} partitions", count)
        case "preferred leader":
            text = ngettext("{count:,} preferred leader", "{count:,} preferred leaders", count)
        case "queued partition":
            text = ngettext("{count:,} queued partition", "{count:,} queued partitions", count)
        case "replica":
            text = ngettext("{count:,} replica", "{count:,} replicas", count)
        case "replica move":
            text = ngettext("{count:,} replica move", "{count:,} replica moves", count)
        case "topic":
            text = ngettext("{count:,} topic", "{count:,} topics", count)
        case _:
            raise ValueError(f"no texts for the noun {noun!r}")
    return text.format(count=count)
