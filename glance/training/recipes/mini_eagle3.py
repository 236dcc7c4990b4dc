"""The EAGLE-3 head of glance-mini: corpus, batch and epochs of the block head."""

from glance.training.head_recipe import HeadRecipe
from glance.training.recipes.mini_target import RECIPE as TARGET

RECIPE = HeadRecipe(name="mini-eagle3", kind="eagle3", families=TARGET.families)
