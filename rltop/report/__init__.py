"""The view-models as text and JSON, without Textual."""
