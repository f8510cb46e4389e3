"""`docs/apis.md` out of the tables: `python -m tests.protocol.apis_page` writes it anew; test_apis_page.py holds the page against them."""

from __future__ import annotations

from brokerd.wire.apis import ABSENT, APIS
from tests.cluster.local import ROOT
from tests.protocol.kafka_3_9 import KAFKA_3_9

PAGE = ROOT / "docs" / "apis.md"
HEAD = """\
# APIs, next to Apache Kafka 3.9's

Made by `python -m tests.protocol.apis_page` from `brokerd/wire/apis.py` and `tests/protocol/kafka_3_9.py` (Kafka's published message schemas);
`tests/protocol/test_apis_page.py` fails when it is not what they say. What is served is offered in ApiVersions; a client that wants something else hears "unsupported version".

"KIP-896": versions that Kafka 4 dropped as well; clients since 2.1 do not use them. A version above Kafka 3.9's is one of Kafka 4's.
"""


def gaps(key: int) -> list[str]:
    """Every difference to Kafka 3.9 that takes something from a client, in words."""
    published, api = KAFKA_3_9.get(key), APIS.get(key)
    if api is None:
        return [ABSENT[key]]
    out = [api.gaps] if api.gaps else []
    if published is not None and api.min_version > published.low and api.min_version == published.kept_from:
        out.append(f"no version below {api.min_version} (KIP-896)")
        if api.advertised_min is not None:
            out[-1] += ", though they are offered, as in Kafka 4: librdkafka would not compress otherwise (KAFKA-18659)"
    return out


def span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def row(key: int) -> str:
    published = KAFKA_3_9.get(key)
    if published is None:
        name, theirs = APIS[key].name, "none"
    else:
        name, theirs = published.name, span(published.low, published.high)
        if published.unstable:
            theirs += " (unstable)"
    api = APIS.get(key)
    ours = span(api.min_version, api.max_version) if api is not None else "none"
    return f"| {key} | {name} | {theirs} | {ours} | {'; '.join(gaps(key))} |"


def render() -> str:
    keys = sorted({*KAFKA_3_9, *APIS})
    head = "| key | API | Kafka 3.9 | Weir | what is missing, and why |\n|---|---|---|---|---|\n"
    clients = [k for k in keys if k in APIS or "b" in KAFKA_3_9[k].listeners]
    among = [k for k in keys if k not in clients]
    return "\n".join(
        [
            HEAD, "## Asked by clients", "", head + "\n".join(map(row, clients)), "",
            "## Among Kafka's own brokers and controllers", "", head + "\n".join(map(row, among)), "",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(render())
