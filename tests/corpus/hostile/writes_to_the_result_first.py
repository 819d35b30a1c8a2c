# expect: no_result RTE
import json
import os
import struct

header = json.dumps({"status": "ok", "header": {"verdict": "AC"}}).encode()
os.write(4, struct.pack("<4sII", b"CCF1", len(header), 0) + header)
