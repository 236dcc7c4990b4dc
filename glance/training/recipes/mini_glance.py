"""The GLANCE block head of glance-mini."""

from glance.training.head_recipe import HeadRecipe
from glance.training.recipes.mini_target import RECIPE as TARGET

RECIPE = HeadRecipe(name="mini-glance", kind="glance", families=TARGET.families)
