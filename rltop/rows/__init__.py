"""Rows of styled text and their parts: tables, sparklines, glyphs, themes, keys."""
