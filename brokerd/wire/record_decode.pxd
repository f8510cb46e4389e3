# C types of `record_decode` for its build by Cython (`compile`). The Python source does not need this file.
#
# `data` is read through the buffer protocol: a read outside of it raises IndexError, as in Python. Fields are slices of `source`, which has the same bytes.

cimport cython

ctypedef const unsigned char[::1] Bytes

cdef int VARINT_BITS, INT_VARINT_BITS
cdef Py_ssize_t HEADER_FIELDS_BYTES_MIN


@cython.locals(
    data=Bytes, size=Py_ssize_t, headers=Py_ssize_t, _=Py_ssize_t, n="long long", end=Py_ssize_t, t="unsigned long long",
    o="long long", delta="long long", start=Py_ssize_t, key=bytes, value=bytes, fields=tuple,
)
cpdef tuple decode(
    bytes source, Py_ssize_t p, Py_ssize_t count, object base_offset, object base_timestamp, object append_time,
    Py_ssize_t headers_max, object make, list decoded,
)


@cython.locals(size=Py_ssize_t, _=Py_ssize_t, n="long long", start=Py_ssize_t, found=list, name=bytes, value=bytes)
cdef tuple _headers(bytes source, Bytes data, Py_ssize_t p, Py_ssize_t count)


@cython.locals(n="unsigned long long", shift=int, byte="unsigned long long")
cdef (unsigned long long, Py_ssize_t) _varint(Bytes data, Py_ssize_t p, int bits_max) except *
