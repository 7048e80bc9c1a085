"""What is printed: the pages as text, and the JSON documents."""
