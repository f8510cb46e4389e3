"""Texts of the console in the language of the request: lazy texts of module constants, counted nouns.

Invariants: a text is English in the code and is translated when it is shown. Nothing that is stored, logged or sent to a program is translated. Does
not contain: the catalogues (locale/), the choice of the language (`weir.languages`).
"""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import ngettext


def gettext_lazy(message: str, **values: object) -> str:
    """Django's gettext_lazy with the values of the placeholders, typed as the text that it becomes. For texts outside of functions. A function that
    needs a real str (`str.join`) takes `str(text)`."""
    text = translation.gettext_lazy(message)
    return cast(str, format_lazy(text, **values) if values else text)


def known_language(code: object) -> str:
    """`code` if it is a language of the console, else English."""
    return code if isinstance(code, str) and code in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


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
