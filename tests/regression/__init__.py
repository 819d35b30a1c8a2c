"""Published experiments as programs: `python -m tests.regression` prints published against modelled, ratio by ratio."""
