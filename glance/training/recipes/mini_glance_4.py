"""The fourth block head of glance-mini, for the third target; it begins with the third (`--start-from`).

It sees 12,288 answers once, the third's 5,120 among them, and twice the blocks of each: EAGLE-3 learns from every
position of an answer, a block head from those drawn.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_3 import RECIPE as THIRD

RECIPE = replace(THIRD, name="mini-glance-4", samples=12288, anchors=16)
