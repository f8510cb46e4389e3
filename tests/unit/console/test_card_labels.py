"""Labels of cells that are read from the head of their table."""

from __future__ import annotations

import re

import pytest

from console.card_labels import column_labels, labelled

HEAD = """<th scope="col">Topic</th><th scope="col" class="num"><a href="?sort=lag">Lag&nbsp;▾</a></th>
<th scope="col">State</th><th scope="col"><span class="unseen">Operations</span></th>"""


def labels_of(row: str) -> list[str]:
    return re.findall(r'data-l="([^"]*)"', row)


def test_a_label_is_the_text_of_the_header_without_sort_mark_and_hidden_text() -> None:
    assert column_labels(HEAD) == ["Topic", "Lag", "State", ""]
    assert column_labels('<th colspan="2">A "b" &amp; c</th>') == ["A &quot;b&quot; &amp; c"] * 2


def test_each_cell_but_the_name_and_the_buttons_gets_the_label_of_its_column() -> None:
    row = '<tr><td><a class="name">orders</a></td><td class="num">5</td><td title="a > b">●</td><td class="acts"><button>x</button></td></tr>'
    assert (
        labelled(row * 2, HEAD)
        == row.replace('num">5', 'num" data-l="Lag">5').replace('b">●', 'b" data-l="State">●') * 2
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('<tr><td class="num">7</td><td>1</td></tr>', ["Topic", "Lag"]),
        ('<tr><td>a</td><td data-l="own">1</td><td>up</td></tr>', ["own", "State"]),
        ("<tr><td>a</td><td> </td><td>up</td></tr>", ["State"]),
        ('<tr><td>a</td><td colspan="2">unknown</td><td>Stop</td></tr>', []),
        ("<tr><td>a</td><td><table><tr><td>x</td><td>y</td></tr></table></td><td>up</td></tr>", ["Lag", "State"]),
        ("<tr><td>a</td><td>1</td><td>up</td><td>x</td><td>more than the head has</td></tr>", ["Lag", "State"]),
    ],
    ids=["number first", "own label", "empty", "several columns", "table in a cell", "short head"],
)
def test_special_cells(row: str, expected: list[str]) -> None:
    assert labels_of(labelled(row, HEAD)) == expected


def test_the_name_is_the_first_column_with_a_text() -> None:
    row = '<tr><td><input type="checkbox"></td><td>orders</td><td>up</td></tr>'
    assert labels_of(labelled(row, "<th><input type=checkbox></th><th>Topic</th><th>State</th>")) == ["State"]
    assert labelled("<tr><td>a</td><td>b</td></tr>", "") == "<tr><td>a</td><td>b</td></tr>"
