"""A comparison written: tables, JSON record, pictures, report, and the check of committed results."""
