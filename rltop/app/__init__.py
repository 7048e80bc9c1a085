"""The application: pages on screens of Textual's, and what its keys do."""
