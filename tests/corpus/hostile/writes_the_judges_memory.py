# expect: violation SV
import ctypes

mine = ctypes.create_string_buffer(b"pass")
vector = (ctypes.c_size_t * 2)(ctypes.addressof(mine), 4)
ctypes.CDLL(None).process_vm_writev(request["judge"], vector, 1, vector, 1, 0)
