"""The only writers of what is wanted. Law: each service checks, writes one transaction with its change row, and raises Refused
with a sentence otherwise. Called by the API, the console's forms, tasks and the controller's database thread."""

from controlplane.services.common import Refused

__all__ = ["Refused"]
