"""One module and one stylesheet per screen."""
