"""Labels of cells for a table that is a list of blocks on a phone: each cell names its column, because the head is hidden. Pure functions on HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

CELL_TAG = re.compile(r"""<(/?)(table|tr|td|th)\b((?:[^"'>]++|"[^"]*+"|'[^']*+')*+)>""")
COLSPAN = re.compile(r'\bcolspan="(\d+)"')
HEADER = re.compile(r"<th\b([^>]*)>(.*?)</th>", re.DOTALL)
UNSEEN = re.compile(r'<(\w+) class="unseen">.*?</\1>', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
SORT_MARKS = "▾▴\xa0"
UNLABELLED = re.compile(r'\bdata-l=|\bclass="[^"]*\b(?:acts|none)\b')
NUMBER = re.compile(r'\bclass="[^"]*\bnum\b')
EMPTY = re.compile(r"\s*</td>")


def column_labels(head: str) -> list[str]:
    """The text of each column, "" if it has none. A header of two columns counts twice."""
    labels: list[str] = []
    for attributes, content in HEADER.findall(head):
        text = TAG.sub("", UNSEEN.sub("", content)).replace("&nbsp;", " ").strip(SORT_MARKS + " \n")
        labels += [" ".join(text.split()).replace('"', "&quot;")] * _columns(attributes)
    return labels


def labelled(rows: str, head: str) -> str:
    """These rows with the attribute data-l in each cell. Without a label: the name of the row (the first column that has a text), unless it is a number; a cell of several columns;
    an empty cell; buttons; a cell that has its own label; tables inside of a cell."""
    labels = column_labels(head)
    return "".join(_pieces(rows, labels, next((n for n, label in enumerate(labels) if label), 0)))


def _pieces(rows: str, labels: Sequence[str], named: int) -> Iterator[str]:
    depth = column = done = 0
    for tag in CELL_TAG.finditer(rows):
        closes, name, attributes = tag.groups()
        if name == "table":
            depth += -1 if closes else 1
        elif closes or depth:
            continue
        elif name == "tr":
            column = 0
        else:
            own, column = column, column + _columns(attributes)
            label = labels[own] if column - own == 1 and own < len(labels) else ""
            is_name = own <= named and not NUMBER.search(attributes)
            if (
                name == "td"
                and label
                and not is_name
                and not UNLABELLED.search(attributes)
                and not EMPTY.match(rows, tag.end())
            ):
                yield rows[done : tag.end() - 1]
                yield f' data-l="{label}"'
                done = tag.end() - 1
    yield rows[done:]


def _columns(attributes: str) -> int:
    return int(found[1]) if (found := COLSPAN.search(attributes)) else 1
