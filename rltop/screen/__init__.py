"""Between the terminal and Textual: terminal state, first frame, key bindings, and partial screen updates."""
