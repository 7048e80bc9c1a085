"""What a key means: data, not code."""
