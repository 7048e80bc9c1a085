"""Dumps of completions."""
