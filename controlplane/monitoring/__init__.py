"""Cluster monitoring: metrics of brokers and groups, the projection of the metadata log into rows, live updates for the console."""
