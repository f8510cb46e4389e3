"""Consumer groups: `group` is the machine, `groups` the place, `records` their shape in __consumer_offsets. Transactions: `transaction`,
`transactions`, `transaction_records` likewise, and `markers`, who tells the partitions.

Law: no reply that depends on a record before that record is replicated. Must not come in: sockets; the log but through its port.
"""
