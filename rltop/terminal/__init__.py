"""The terminal itself, without Textual: early paint, and the guard of its state."""
