"""The third block head of glance-mini, for the third target; it begins with the second (`--start-from`).

More answers than the second saw, each seen once: that one knew its 3,072 better than new ones.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_2 import RECIPE as SECOND

RECIPE = replace(SECOND, name="mini-glance-3", seed=2, samples=5120, epochs=1)
