"""Metrics in the text format 0.0.4 of Prometheus. Pure. Invariants: label values are escaped. A family without samples is omitted. Does not contain: the
metrics of a broker (`metrics`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """`samples`: (suffix of the name, labels, value). The suffix is empty except in a histogram: _bucket, _sum, _count."""

    name: str
    type: MetricType
    help: str
    samples: Iterable[tuple[str, Labels, float]]


def lines(families: Iterable[MetricFamily]) -> Iterator[str]:
    """The lines of the text, each with its line end."""
    for family in families:
        begun = False
        for suffix, labels, value in family.samples:
            if not begun:
                begun = True
                yield f"# HELP {family.name} {family.help}\n"
                yield f"# TYPE {family.name} {family.type}\n"
            shown = ",".join(f'{name}="{_escape(text)}"' for name, text in labels)
            yield f"{family.name}{suffix}{{{shown}}} {value!r}\n" if labels else f"{family.name}{suffix} {value!r}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
