"""Bytes from strangers and from clients, at the doors of a whole broker in this process.

Law: a talk is made of given bytes alone, so that it can be held again. Called by `make fuzz` and by the tests of what it has found.
"""
