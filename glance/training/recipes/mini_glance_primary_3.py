"""The *primary* GLANCE head of the fifth target; it begins with that of the fourth (`--start-from`)."""

from dataclasses import replace

from glance.training.recipes.mini_glance_primary_2 import RECIPE as SECOND

RECIPE = replace(SECOND, name="mini-glance-primary-3", seed=5, samples=1536, bfloat16=False)
