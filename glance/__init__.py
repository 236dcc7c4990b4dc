"""Lossless speculative decoding on a vision-language model, made visible: the library under the app."""
