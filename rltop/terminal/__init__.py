"""The terminal without Textual: its state guarded, the first frame drawn."""
