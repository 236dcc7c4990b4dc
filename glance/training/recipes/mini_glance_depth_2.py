"""A block head of two layers, to be compared with `mini-glance-depth-4`."""

from dataclasses import replace

from glance.training.recipes.mini_glance_depth_4 import RECIPE as FOUR

RECIPE = replace(FOUR, name="mini-glance-depth-2", layers=2, begin=(11, 12), guided=(0, 1))
