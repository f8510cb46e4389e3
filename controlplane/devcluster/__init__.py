"""The local cluster of `make up`: ZooKeeper, brokers, controller, web and worker processes on one machine, with demo data."""
