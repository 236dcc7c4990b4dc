"""A block head of six layers, to be compared with `mini-glance-depth-4`."""

from dataclasses import replace

from glance.training.recipes.mini_glance_depth_4 import RECIPE as FOUR

RECIPE = replace(FOUR, name="mini-glance-depth-6", layers=6, begin=(8, 9, 10, 11, 12, 13), guided=(3, 4))
