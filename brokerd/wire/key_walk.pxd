# C types of `key_walk` for its build by Cython (`compile`). The Python source does not need this file.
#
# The buffers are read through the buffer protocol: no copies, and a read outside of one raises IndexError, as in Python.

cimport cython

ctypedef const unsigned char[::1] Bytes
ctypedef unsigned long long[::1] Numbers

cdef Py_ssize_t LENGTH_AT, MAGIC_AT, CRC_AT, CRC_FROM, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT, RECORDS_AT, RECORD_BYTES_MIN, LENGTH_OVERHEAD, CRC_TABLES
cdef int MAGIC, COMPRESSION_OR_CONTROL, VARINT_BITS
cdef long long NULL, OFFSET_DELTA_MAX
cdef unsigned long long MIX, MASK
cdef unsigned int[::1] CRC_TABLE


@cython.final
cdef class KeyWalk:
    cdef public Py_ssize_t count, last
    cdef public long long next_offset
    cdef Numbers entries, table
    cdef unsigned long long seed
    cdef Bytes name

    @cython.locals(
        data=Bytes, size=Py_ssize_t, end=Py_ssize_t, length="long long", records="long long", before=Py_ssize_t,
        crc="unsigned int",
    )
    cpdef Py_ssize_t collect(self, object buffer, Py_ssize_t at, unsigned long long position, object checksum) except -1

    @cython.locals(mask=Py_ssize_t, n="long long", end=Py_ssize_t, _="long long")
    cdef int _batch(
        self, Bytes data, Py_ssize_t p, Py_ssize_t limit, long long records, unsigned long long position
    ) except -1

    @cython.locals(n="long long", count="long long", name_end=Py_ssize_t, is_indexed=bint, _="long long")
    cdef int _header_values(
        self, Bytes data, Py_ssize_t p, Py_ssize_t end, unsigned long long position, Py_ssize_t mask
    ) except -1

    @cython.locals(hash_="unsigned long long")
    cdef int _add(self, unsigned long long checksum, unsigned long long position, Py_ssize_t mask) except -1

    @cython.locals(entry="unsigned long long", found="unsigned long long", slot=Py_ssize_t, _=Py_ssize_t)
    cdef int _add_once(self, unsigned long long hash_, unsigned long long position, Py_ssize_t mask) except -1


@cython.locals(
    p=Py_ssize_t, limit=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t, n="long long", delta="long long", slot="unsigned long long",
)
cpdef int key_slots(Bytes data, Py_ssize_t count, unsigned long long slots, Numbers entries) except -1


@cython.locals(mask=Py_ssize_t, kept=Py_ssize_t, i=Py_ssize_t, entry="unsigned long long", slot=Py_ssize_t)
cpdef Py_ssize_t distinct(Numbers entries, Numbers table) except -1


@cython.locals(
    i=Py_ssize_t, total="unsigned long long", count="unsigned long long", bucket="unsigned long long",
)
cpdef int in_buckets(Numbers entries, int shift, Numbers ordered, Numbers ends) except -1


@cython.locals(n="long long", i=Py_ssize_t)
cdef long long _number(Bytes data, Py_ssize_t at, Py_ssize_t size) except? -1


@cython.locals(n="long long", shift=int, byte="long long")
cdef (long long, Py_ssize_t) _varint(Bytes data, Py_ssize_t p, Py_ssize_t limit) except *


@cython.locals(crc="unsigned int", low="unsigned int")
cdef unsigned int _checksum(Bytes data, Py_ssize_t p, Py_ssize_t end, unsigned int start) except? 0


@cython.locals(i=Py_ssize_t)
cdef bint _equals(Bytes data, Py_ssize_t p, Py_ssize_t end, Bytes name) except -1
