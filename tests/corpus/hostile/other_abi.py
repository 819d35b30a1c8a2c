# expect: violation SV
import ctypes
import mmap
import os

# 32-bit system calls have other numbers: int 0x80 with eax = 20 (getpid), then ret.
if os.uname().machine != "x86_64":
    os.kill(os.getppid(), 9)
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
