"""The recipes of the embedded family: its target, its GLANCE block head and its EAGLE-3 head."""
