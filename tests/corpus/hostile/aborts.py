# expect: crashed RTE
import os

os.abort()
