"""The screen; the only package that imports textual, rich or plotext."""
