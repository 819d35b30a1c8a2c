"""An exercise; see `problem.py`."""
