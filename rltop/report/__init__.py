"""What is printed or written: the pages as text, reports with charts, and the JSON documents."""
