"""Selectors: rows and values for pages and the API. Invariants: no selector reads from ZooKeeper. Only `messages`, `quotas` and `broker_configs`
also read from brokers, with a deadline. Every value has its age. An unknown value is None, not zero."""
