"""`docs/settings.md` out of the tables: `python -m tests.unit.settings_page` writes it anew; test_dynamic.py holds the page against them."""

from __future__ import annotations

from brokerd.cluster.configs import BROKER_SYNONYMS, TOPIC_CONFIGS
from brokerd.config import SETTINGS
from brokerd.dynamic import BY_THE_CONTROLLER, FIXED, ONE_BROKERS, topic_default
from brokerd.setting import Setting
from tests.cluster.local import ROOT

PAGE = ROOT / "docs" / "settings.md"
TYPES = {1: "boolean", 2: "string", 3: "int", 5: "long", 6: "double", 7: "list", 9: "password"}
HEAD = """\
# A broker's settings, and which of them change while it runs

Made by `python -m tests.unit.settings_page` from `brokerd/config.py` and `brokerd/cluster/configs.py`. All stand in the broker's file (`deploy/broker.properties` explains them).
"at once": by AlterConfigs and IncrementalAlterConfigs (`kafka-configs --entity-type brokers`), for one broker or, with the empty name, for all; the change is a row of the control plane's, is
carried by the metadata log, outlives a restart and beats the file. Everything else is refused with the reason given here and wants the file and a restart.

| setting | type | default | changes at once |
|---|---|---|---|
"""
TOPICS = """
## Defaults for topics

Of all brokers together (the empty name), never of one; a topic's own setting beats them. Names in other units (`log.retention.hours`) count in files only.

| broker's setting | topic's setting | default | changes at once |
|---|---|---|---|
"""


def row(setting: Setting) -> str:
    default = setting.show(setting.default)
    when = (
        "yes, for one broker"
        if setting.name in ONE_BROKERS
        else "yes"
        if setting.live
        else f"no: {FIXED[setting.name]}"
        if setting.name in FIXED
        else "no"
    )
    return f"| `{setting.name}` | {TYPES[setting.kafka_type]} | {'' if default is None else default} | {when} |"


def topic_row(synonym: str, topic: str) -> str:
    when = "no: the controller elects by it; set it on topics" if synonym in BY_THE_CONTROLLER else "yes, for all"
    return f"| `{synonym}` | `{topic}` | {TOPIC_CONFIGS[topic].default_text} | {when} |"


def render() -> str:
    topics = [topic_row(s, t) for s, t in BROKER_SYNONYMS.items() if topic_default(s) is not None]
    return HEAD + "\n".join(map(row, SETTINGS)) + "\n" + TOPICS + "\n".join(topics) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
