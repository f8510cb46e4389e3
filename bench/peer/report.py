"""Rows as JSON, a Markdown table and a page of plots. A ratio above one means that Weir is better, in any unit. The JSON contains each pass."""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

WEIR = "weir"


@dataclass(slots=True)
class Row:
    """One value of one workload: its passes by system in the order of the run, so that equal indexes are a pair."""

    name: str
    terms: str
    metric: str
    unit: str
    more_is_better: bool
    values: dict[str, list[float]] = field(default_factory=dict)
    client_bound: list[str] = field(default_factory=list)
    others: float | None = None

    def advantage(self, peer: str) -> list[float]:
        """Per pair, the factor by which Weir is better. A value below the resolution of the clock gives no ratio."""
        out = []
        for mine, theirs in zip(self.values[WEIR], self.values[peer], strict=True):
            if mine > 0 and theirs > 0:
                out.append(mine / theirs if self.more_is_better else theirs / mine)
        return out


def peers(rows: list[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.values} - {WEIR})


def as_json(conditions: dict[str, Any], rows: list[Row]) -> str:
    out = []
    for row in rows:
        ratios = {}
        for peer in row.values:
            if peer != WEIR and (found := row.advantage(peer)):
                ratios[peer] = {k: round(f(found), 3) for k, f in (("median", median), ("min", min), ("max", max))}
        body = asdict(row)
        body["values"] = {k: [round(v, 4) for v in passes] for k, passes in row.values.items()}
        out.append({**body, "advantage": ratios})
    return json.dumps({"conditions": conditions, "rows": out}, indent=1)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(row: Row, peer: str) -> str:
    found = row.advantage(peer) if peer in row.values else []
    if not found:
        return "-"
    text = f"{_number(median(found))} ({_number(min(found))} to {_number(max(found))})"
    return f"**{text}**" if median(found) < 1 else text


def as_markdown(conditions: dict[str, Any], rows: list[Row]) -> str:
    names = peers(rows)
    lines = [f"# Weir {conditions['commit']} compared with Apache Kafka, {conditions['date']}", ""]
    lines += [f"- {key}: {value}" for key, value in conditions.items() if key not in ("commit", "date")]
    lines += [
        "",
        "A ratio says how many times better Weir is: the median of the pairs (minimum to maximum). Bold: Weir is behind. *Client-bound*: a thread of the client was busy throughout",
        "and the named systems' brokers were not, so the client limits their rate; CPU per GB is valid anyway.",
        "",
        "| workload | terms | metric | weir | "
        + " | ".join(f"{n} | ratio" for n in names)
        + (" | " if names else "")
        + "note |",
        "|---|---|---|--:|" + "--:|--:|" * len(names) + "---|",
    ]
    for row in rows:
        cells = [row.name, row.terms, f"{row.metric}, {row.unit}", _number(median(row.values[WEIR]))]
        for name in names:
            cells += [_number(median(row.values[name])), _ratio(row, name)] if name in row.values else ["-", "-"]
        cells.append(f"client-bound: {', '.join(row.client_bound)}" if row.client_bound else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


COLOURS = ("#0b6e4f", "#a44a3f", "#3b5b92")
LEFT, WIDTH, STEP = 520, 460, 22


def as_page(conditions: dict[str, Any], rows: list[Row]) -> str:
    """The ratio of each row as a dot with its spread, on a logarithmic scale. The line in the middle is a ratio of one."""
    names = peers(rows)
    shown = [(row, name, row.advantage(name)) for row in rows for name in names if name in row.values]
    shown = [s for s in shown if s[2]]
    reach = max([2.0, *(max(r, 1 / r) for _, _, found in shown for r in found)])

    def x(ratio: float) -> float:
        return LEFT + WIDTH / 2 * (1 + math.log(ratio) / math.log(reach))

    marks, y, before = [], 40, ""
    for row, name, found in shown:
        label = f"{row.name} · {row.terms} · {row.metric}"
        y += STEP if label != before else STEP // 2
        colour = COLOURS[names.index(name) % len(COLOURS)]
        if label != before:
            faint = ' opacity="0.45"' if row.client_bound else ""
            marks.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end"{faint}>{html.escape(label)}</text>')
        before = label
        words = f"{label}: {_ratio(row, name).strip('*')} times {name}"
        marks.append(
            f"<g><title>{html.escape(words)}</title>"
            f'<line x1="{x(min(found)):.1f}" x2="{x(max(found)):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x(median(found)):.1f}" cy="{y}" r="4" fill="{"white" if row.client_bound else colour}" '
            f'stroke="{colour}" stroke-width="2"/></g>'
        )
    ticks = [t for t in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if 1 / reach <= t <= reach]
    grid = [
        f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="30" y2="{y + 14}" stroke="{"#333" if t == 1 else "#ddd"}"/>'
        f'<text x="{x(t):.1f}" y="22" text-anchor="middle">{t:g}×</text>'
        for t in ticks
    ]
    legend = " ".join(
        f'<b style="color:{COLOURS[i % len(COLOURS)]}">● {html.escape(n)}</b>' for i, n in enumerate(names)
    )
    facts = "".join(f"<li>{html.escape(str(k))}: {html.escape(str(v))}</li>" for k, v in conditions.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Weir compared with Apache Kafka</title>'
        "<style>body{font:14px system-ui;margin:2em;max-width:64em}svg{font-size:11px}</style>"
        f"<h1>Weir {html.escape(conditions['commit'])} compared with Apache Kafka</h1><p>{legend}. Right of 1: Weir is ahead. A dot is the median of the "
        "pairs, its line their spread; a hollow dot is client-bound. The JSON file of the same name contains each value.</p>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{y + 30}" fill="#222">{"".join(grid)}{"".join(marks)}</svg>'
        f"<ul>{facts}</ul></html>\n"
    )


def write(folder: Path, stem: str, conditions: dict[str, Any], rows: list[Row]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for ending, text in (
        ("json", as_json(conditions, rows)),
        ("md", as_markdown(conditions, rows)),
        ("html", as_page(conditions, rows)),
    ):
        path = folder / f"{stem}.{ending}"
        path.write_text(text)
        out.append(path)
    return out
