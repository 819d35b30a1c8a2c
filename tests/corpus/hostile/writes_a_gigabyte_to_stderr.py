# expect: output OLE
import os

for _ in range(1 << 14):
    os.write(2, bytes(1 << 16))
