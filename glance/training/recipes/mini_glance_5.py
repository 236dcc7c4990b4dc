"""The fifth block head of glance-mini, of six layers; it goes on from `mini-glance-depth-6` (`--start-from`).

Twice over the fourth's answers: with those of its beginning, 30,720 of the third target's answers.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_4 import RECIPE as FOURTH

RECIPE = replace(FOURTH, name="mini-glance-5", epochs=2, layers=6, begin=(8, 9, 10, 11, 12, 13), guided=(3, 4))
