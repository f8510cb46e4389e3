"""Replaces the values in the tables of an open page by the widest ones that the same cells can have.

That a page fits a window says little about another moment: states, estimates and progress change. The states of a column become those of its kind with the
longest labels. Numbers, sizes, durations, addresses, names and operations become long ones. Links keep their texts, unless they may wrap or are numbers. Does
not contain: the rows (tests/browser/seeded_server.py)."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from enum import StrEnum

from django.db.models import TextChoices
from django.utils import translation
from playwright.sync_api import Page

import controlplane
from console.fragments import state_label
from console.states import LAG_STATUSES, SHARE_LAG_STATUSES
from console.vocabulary import operation_text
from console.wait_texts import wait_text
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.wait_reason import Wait, WaitReason

NAME = "deployment-pipeline.production.example.com"
"""The name of a user, client or principal."""

TOPIC_STATES = (
    *("active", "healthy", "creating", "changing", "deleting", "drift", "moving"),
    *("offline", "under_min_isr", "under_replicated", "unknown"),
)
"""The states of topics in `controlplane.selectors.topics`, which have no enum."""


@functools.cache
def state_labels(language: str) -> list[list[str]]:
    """The labels of the states of each kind of object, in a language."""
    for module in pkgutil.walk_packages(controlplane.__path__, "controlplane."):
        if not module.name.startswith(("controlplane.management", "controlplane.migrations")):
            importlib.import_module(module.name)
    with translation.override(language):
        found = [
            [str(state_label(member.value)) for member in kind]
            for kind in (*StrEnum.__subclasses__(), *TextChoices.__subclasses__())
        ]
        found.append([str(state_label(word)) for word in TOPIC_STATES])
        found += [[str(label) for label, _, _ in statuses.values()] for statuses in (LAG_STATUSES, SHARE_LAG_STATUSES)]
    return found


@functools.cache
def operation_labels(language: str) -> list[str]:
    """The labels of the operations of the audit log with the longest words, and the longest one."""
    with translation.override(language):
        labels = [operation_text(operation) for operation in AuditOperation]
    by_word = sorted(labels, key=lambda label: max(map(len, label.split())))
    return [*by_word[-2:], max(labels, key=len)]


FILL = r"""([kinds, name, reasons, operations]) => {
    const wide = (text) => text
        .replace(/\b\d{1,3}(?=%)/g, "100")
        .replace(/\b\d[\d.,]* (B|[kMGT]B)(?!\w)/g, "99.9 MB")
        .replace(/\b\d+ (d|h|min|s)(?: \d+ (h|min|s))?(?![\w.])/g, (all, large, small) => ({d: "365 d 23 h", h: "23 h 59 min", min: "59 min", s: "59 s"})[large])
        .replace(/^\d+(\.\d+){3}$/, "203.100.200.104")
        .replace(/^\d{1,3}( \D+ )\d{1,3}$/, "1,000$11,000")
        .replace(/^\d{1,3}$/, "1,000").replace(/^\d\d?\.\d$/, "99.9");
    const texts = (cell) => {
        const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
        for (let node; (node = walk.nextNode());) if (node.data.trim()) found.push(node);
        return found;
    };
    for (const cell of document.querySelectorAll("main td[data-f=ends]")) if (!cell.querySelector(".st")) cell.textContent = reasons;
    let at = 0;
    for (const table of document.querySelectorAll("main .wrap table")) {
        const rows = [...table.tBodies[0].rows].filter((row) => [...row.cells].every((cell) => cell.colSpan === 1));
        for (let column = 0; column < (rows[0]?.cells.length ?? 0); column++) {
            const cells = rows.map((row) => row.cells[column]).filter((cell) => cell);
            const marks = cells.flatMap((cell) => [...cell.querySelectorAll(".st")]);
            const labels = new Set(marks.map((mark) => mark.textContent.trim()));
            const shared = kinds.map((kind) => kind.filter((label) => labels.has(label)).length), most = Math.max(...shared);
            const longest = most && kinds.filter((_, n) => shared[n] === most).flat().sort((a, b) => b.length - a.length).slice(0, 3);
            if (most) marks.forEach((mark, n) => { mark.textContent = longest[n % 3]; });
            for (const cell of cells) {
                if (/^[a-z_]+\.[a-z_.]+$/.test(cell.title) && !cell.matches(".some, .rest")) cell.textContent = operations[(at += 1) % operations.length];
                const named = cell.matches(".some, .wide, :has(> .words)") && /^[\w.-]{2,18}$/.test(cell.innerText.trim()) && !cell.querySelector(".st");
                for (const node of texts(cell)) {
                    if (named) node.data = name;
                    else if (cell.matches(".num")) node.data = wide(node.data.trim());
                    else if (!node.parentElement.closest(".st, .b, time, a, button, select")) node.data = wide(node.data.trim());
                }
            }
        }
    }
    return [...document.querySelectorAll("main .wrap")].map((frame) => frame.scrollWidth - frame.clientWidth);
}"""


def hidden_by_widest_values(page: Page, language: str) -> list[int]:
    """Pixels that each table is wider than its frame with the widest values. One script does both, so that no live update comes between them."""
    with translation.override(language):
        reasons = wait_text([Wait(reason, 1_000) for reason in WaitReason])
    return list(page.evaluate(FILL, [state_labels(language), NAME, reasons, operation_labels(language)]))
