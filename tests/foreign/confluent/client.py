"""confluent-kafka (librdkafka) as its users use it. What it cannot do at all is in LACKS."""

from __future__ import annotations

from tests.foreign.confluent import admin, consume, produce
from tests.foreign.stage import run_features

LACKS = {
    "assignor-sticky": "librdkafka has no eager sticky assignor",
    "log-dirs": "no such call",
    "transactions-admin": "no such call",
    "quotas": "no such call",
    "reassign": "no such call",
    "streams": "Java only",
    "streams-group": "Java only",
}

if __name__ == "__main__":
    run_features(LACKS, admin, consume, produce)
