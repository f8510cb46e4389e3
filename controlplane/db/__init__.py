"""Database access below the ORM: bulk statements, and checks for replaced SQLite files."""
