"""View-models: what a screen shows, as plain frozen data and styled lines."""
