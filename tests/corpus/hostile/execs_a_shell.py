# expect: violation SV
import os

os.execv("/bin/sh", ["sh", "-c", "echo free"])
