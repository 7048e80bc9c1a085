"""Verdicts: one file per rule family."""
