"""What the brokers and the control plane agree on: nouns, znodes, metadata records, election, placement.

Law: nothing here performs I/O but `zookeeper.py`, the only file in the house that imports kazoo.
Called by brokerd (everything above the ground floor) and by controlplane. Must not come in: the wire, Django, policy of one
side only.
"""
