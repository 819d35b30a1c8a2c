# expect: error RTE
import threading
import time

while True:
    threading.Thread(target=time.sleep, args=(60,)).start()
