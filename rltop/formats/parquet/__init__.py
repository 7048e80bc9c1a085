"""Parquet tables of numbers and text."""
