"""The broker process: Kafka protocol, storage, replication and coordinators. ARCHITECTURE.md has the code map."""
