"""The fifth EAGLE-3 head of glance-mini: the fourth's answers once more.

With what it learnt before, 29,696 of the third target's answers: as many as the fifth block head within four in a
hundred.
"""

from dataclasses import replace

from glance.training.recipes.mini_eagle3_4 import RECIPE as FOURTH

RECIPE = replace(FOURTH, name="mini-eagle3-5")
