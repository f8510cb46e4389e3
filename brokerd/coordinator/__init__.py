"""Group and transaction coordinators. `groups` hosts the state machines of `classic` and `consumer`. `shard` tracks the led partitions."""
