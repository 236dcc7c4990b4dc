"""A control for the depth of the block head: four layers that learn from 6,144 answers of the third target, each once.

`mini-glance-depth-2` and `mini-glance-depth-6` differ from it in their layers alone; none begins with a trained head.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_3 import RECIPE as THIRD

RECIPE = replace(THIRD, name="mini-glance-depth-4", samples=6144)
