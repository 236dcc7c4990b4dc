"""The *primary* GLANCE head of glance-mini: scenes and signs only, as the paper's was trained on captions and signs."""

from dataclasses import replace

from glance.training.recipes.mini_glance import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="mini-glance-primary", families={"scenes": 0.5, "signs": 0.5})
