"""The doors: one file per family of APIs. Parse, ask one room, shape the answer. Must not come in: decisions of their own."""
