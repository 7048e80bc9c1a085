"""Rows by step in bounded memory, under the trainer's own keys and raw values."""
