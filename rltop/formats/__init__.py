"""Bytes become records."""
