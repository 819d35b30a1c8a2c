# expect: no_result RTE
import os
import struct

os.write(4, struct.pack("<4sII", b"CCF1", 60000, 0) + b"[" * 60000)
os._exit(0)
