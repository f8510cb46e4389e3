"""Example programs for features that Kafka does not have. Each runs against a cluster and is tested. Does not contain: code that others import."""
