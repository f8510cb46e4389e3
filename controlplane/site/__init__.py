"""Where Django, Celery and ASGI are put together. Law: wiring only, no decisions. Called by every process that runs Django."""
