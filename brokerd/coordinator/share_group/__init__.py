"""Share groups (KIP-932): membership and assignment."""
