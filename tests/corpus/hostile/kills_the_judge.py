# expect: violation SV
import os
import signal

os.kill(request["judge"], signal.SIGKILL)
