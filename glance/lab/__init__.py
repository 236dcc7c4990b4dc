"""Suites over many prompts of the generator's held-out splits. Each returns a result to keep beside its figures."""
