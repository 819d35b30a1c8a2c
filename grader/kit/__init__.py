"""What lessons and exercises import: device functions for asynchronous copies, and a small laboratory (`lab`)."""
