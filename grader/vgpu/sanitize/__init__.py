"""Observers of the machine under Compute Sanitizer's names: what they keep, what they compare, what they report."""
