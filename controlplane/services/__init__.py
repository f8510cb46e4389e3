"""Services are the only writers of desired state. Invariant: each service checks its arguments and writes its change and the change row in one
transaction. A rejected operation raises Rejected with a message for users."""

from controlplane.services.common import Rejected

__all__ = ["Rejected"]
