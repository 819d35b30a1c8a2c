# expect: RTE compiles
# exercise: 00_grid_stride
# A well-formed frame that says how good it is.

import json
import os
import struct


def send(header, blobs=()):
    text = json.dumps(header).encode()
    sizes = struct.pack(f"<{len(blobs)}Q", *map(len, blobs))
    os.write(4, struct.pack("<4sII", b"CCF1", len(text), len(blobs)) + sizes + text + b"".join(blobs))
    os._exit(0)


send({"status": "ok", "header": {"code": "AC", "points": 10, "programs": {}, "failed_cells": [], "error": None}})
