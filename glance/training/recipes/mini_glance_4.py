"""The fourth block head of glance-mini, for the third target; it begins with the third (`--start-from`).

Twice the blocks of each answer: EAGLE-3 learns from every position of an answer, a block head from those drawn.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_3 import RECIPE as THIRD

RECIPE = replace(THIRD, name="mini-glance-4", samples=12288, anchors=16)
