"""The GLANCE block head of glance-mini. It begins with upper layers of the target, the pointing one among them."""

from glance.training.head_recipe import HeadRecipe
from glance.training.recipes.mini_target import RECIPE as TARGET

RECIPE = HeadRecipe(
    name="mini-glance",
    kind="glance",
    families=TARGET.families,
    samples=6144,
    held_out=256,
    epochs=2,
    layers=4,
    begin=(10, 11, 12, 13),
    pointing=TARGET.guided_layers[-1],
    guided=(1, 2),
    reveal=0.25,
)
