# expect: no_result RTE
import os

os.close(4)
