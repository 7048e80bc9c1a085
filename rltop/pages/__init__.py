"""What each page shows, which keys it takes and how it is painted; no Textual."""
