# expect: no_result RTE
import os

os.write(4, b"PASS " * 100)
os._exit(0)
