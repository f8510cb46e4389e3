"""What the operator sees: pages, fragments, sockets. Law: doors only; of controlplane it knows services, selectors, events."""
