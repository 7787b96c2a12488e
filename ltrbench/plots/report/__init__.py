"""Pictures that the report alone shows."""
