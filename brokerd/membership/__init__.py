"""Registration of the broker: identity of its data directories, its session in ZooKeeper, its ephemeral node."""
