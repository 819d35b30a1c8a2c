# expect: error RTE
import os

os.memfd_create("hidden")
