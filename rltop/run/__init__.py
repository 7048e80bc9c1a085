"""Sources, decoders, store and rules put together, without a screen."""
