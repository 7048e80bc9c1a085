"""Lines of styled text and what they are made of: tables, sparklines, glyphs, themes, keys."""
