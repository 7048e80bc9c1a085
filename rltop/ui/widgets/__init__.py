"""Line-API widgets: they take a view-model and draw."""
