"""Notebooks: built from text, the IPython extension, checks in a cell, and nbgrader."""
