"""The lanes that a race can have: id -> name, in the order in which they are shown; the first chosen is the reference."""

LANES = {"autoregressive": "Autoregressive", "eagle3": "EAGLE-3", "glance": "GLANCE"}
