"""Pages. Law: each view parses, asks one selector or calls one service, and shapes; a refusal becomes a sentence beside its field."""
