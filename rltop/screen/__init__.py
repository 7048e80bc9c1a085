"""Between the terminal and Textual: the guard of the terminal, the first frame, keys, and the cells that are sent."""
