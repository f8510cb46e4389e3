"""Request dispatch: from a decoded frame to the handler that answers it, and work that takes more than one iteration of the event loop."""
