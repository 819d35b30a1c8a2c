"""numba-cuda's own tests, as its wheel ships them, on the virtual GPU: `python -m tests.conformance`."""
