# expect: error RTE
import sys

sys.exit(0)
