# expect: output OLE
import os
import struct

os.write(4, struct.pack("<4sIIQ", b"CCF1", 10, 1, 1 << 40))
while True:
    os.write(4, bytes(1 << 16))
