"""Telescope's archives of parquet tables."""
