"""Putting the app on other people's machines: Spaces, and the production engines that serve the same heads."""
