"""kafka-python as its users use it. What it cannot do at all is in LACKS."""

from __future__ import annotations

from tests.foreign.kafka_python import admin, consume, produce
from tests.foreign.stage import run_features

LACKS = {
    "share-letters": "no share groups",
    "new-protocol": "classic groups only",
    "quotas": "no such call",
    "streams": "Java only",
    "streams-group": "Java only",
}

if __name__ == "__main__":
    run_features(LACKS, admin, consume, produce)
