"""The lanes that a race can have: id -> name, in the order of the page; the first chosen is the reference."""

LANES = {"autoregressive": "Autoregressive", "eagle3": "EAGLE-3", "glance": "GLANCE"}
