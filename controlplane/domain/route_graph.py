"""Loops of routes: whether a record could return to a topic that it has passed. Pure.

Edges are the bindings of the enabled routes and the front topics, which transfer their records to another topic. The contents of records are not
considered: two routes with different keys in both directions are a loop, because the next change of a binding could make it one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

FRONT_TARGETS: Mapping[str, Sequence[str]] = {
    ".delay": ("",),
    ".half": ("", ".half.check", ".half.expired"),
}
"""{suffix of a front topic: suffixes of the topics that receive its records}. Both follow the same name: `a.half` transfers to `a`, `a.half.check`
and `a.half.expired`."""

Edges = Mapping[str, Iterable[str]]
"""Source topic: its target topics."""


def front_targets(topic: str) -> list[str]:
    """The topics to which a front topic of this name transfers records."""
    return [
        topic.removesuffix(suffix) + ending
        for suffix, endings in FRONT_TARGETS.items()
        if topic.endswith(suffix) and topic != suffix
        for ending in endings
    ]


def find_loop(edges: Edges, source: str, targets: Iterable[str]) -> list[str] | None:
    """The topics of the loop that would exist if `source` had these targets in addition: the first and the last one are `source`. None without a loop."""
    before: dict[str, str] = {}
    waiting = []
    for target in targets:
        if target == source:
            return [source, source]
        if target not in before:
            before[target] = source
            waiting.append(target)
    while waiting:
        topic = waiting.pop()
        for following in (*edges.get(topic, ()), *front_targets(topic)):
            if following == source:
                path = [source, topic]
                while path[-1] != source:
                    path.append(before[path[-1]])
                return path[::-1]
            if following not in before:
                before[following] = topic
                waiting.append(following)
    return None
