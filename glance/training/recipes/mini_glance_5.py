"""The fifth block head of glance-mini, of six layers; it goes on from `mini-glance-depth-6` (`--start-from`).

Twice over the fourth's answers: with those of its beginning, 30,720 of the third target's answers.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_4 import RECIPE as FOURTH
from glance.training.recipes.mini_glance_depth_6 import RECIPE as SIX

RECIPE = replace(SIX, name="mini-glance-5", samples=FOURTH.samples, anchors=FOURTH.anchors, epochs=2)
