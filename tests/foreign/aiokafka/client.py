"""aiokafka as its users use it. What it cannot do at all is in LACKS."""

from __future__ import annotations

from tests.foreign.aiokafka import admin, consume, produce
from tests.foreign.stage import run_features

LACKS = {
    "share-letters": "no share groups",
    "assignor-cooperative": "no incremental rebalance",
    "new-protocol": "classic groups only",
    "list-offsets": "no call of its admin client's (its consumer has them: see seek by timestamp)",
    "log-dirs": "no such call",
    "transactions-admin": "no such call",
    "scram": "no such call",
    "quotas": "no such call",
    "reassign": "no such call",
    "elect": "no such call",
    "acls": "no such call",
    "streams": "Java only",
    "streams-group": "Java only",
}

if __name__ == "__main__":
    run_features(LACKS, admin, consume, produce)
