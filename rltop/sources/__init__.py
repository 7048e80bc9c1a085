"""Where bytes come from; knows nothing of JSON."""
