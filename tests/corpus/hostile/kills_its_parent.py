# expect: violation SV
import os
import signal

os.kill(os.getppid(), signal.SIGKILL)
