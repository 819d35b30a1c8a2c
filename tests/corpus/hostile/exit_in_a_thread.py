# expect: error RTE
import _thread


def leave():
    raise SystemExit


_thread.start_new_thread(leave, ())
