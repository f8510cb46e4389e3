"""Migration between Apache Kafka and Weir by Kafka's MirrorMaker 2: `make mirror`. Not in `make test`: needs Maven and several JVMs."""
