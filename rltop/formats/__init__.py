"""Bytes become records: one reader for each format."""
