"""What moves bytes: the loop, the door, peers, fetchers, membership. Law: no decision about data is taken here."""
