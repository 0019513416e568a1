"""Opens a file for writing through io_uring, which makes no call that opens."""

import ctypes
import mmap
import os
import struct
import sys

l = ctypes.CDLL(None, use_errno=True)
p = ctypes.create_string_buffer(120)
fd = l.syscall(425, 4, p)
if fd < 0: sys.exit(1)
sq_entries, cq_entries, flags = struct.unpack_from('III', p, 0)
sq = struct.unpack_from('IIIIIIIIQ', p, 40)
cq = struct.unpack_from('IIIIIIIIQ', p, 80)
sqr = mmap.mmap(fd, sq[6] + sq_entries*4, offset=0)
cqr = mmap.mmap(fd, cq[5] + cq_entries*16, offset=0x8000000)
sqe = mmap.mmap(fd, sq_entries*64, offset=0x10000000)
path = ctypes.create_string_buffer(sys.argv[1].encode())
sqe[0:64] = struct.pack('BBHiQQIIQ', 18, 0, 0, -100, 0, ctypes.addressof(path), 0, os.O_WRONLY | os.O_APPEND, 1) + b'\0'*24
struct.pack_into('I', sqr, sq[6], 0)
struct.pack_into('I', sqr, sq[1], 1)
l.syscall(426, fd, 1, 1, 1, 0, 0)
res = struct.unpack_from('QiI', cqr, cq[5])[1]
print(res)
sys.exit(0 if res >= 0 else 1)
