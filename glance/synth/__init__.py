"""The generator of documents, charts, signs, infographics and scenes that the embedded family learns from."""

from glance.synth.generate import FAMILIES, SIZES, sample
from glance.synth.sample import Glyphs, Sample, Thing

__all__ = ["FAMILIES", "SIZES", "Glyphs", "Sample", "Thing", "sample"]
