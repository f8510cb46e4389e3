"""Template tags of the console. Law: how a value looks is `fragments`'; these only call it."""
