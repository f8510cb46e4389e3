# C types of `record_walk` for its build by Cython (`compile`). The Python source does not need this file.
#
# `data` is read through the buffer protocol: no copy of a batch, and a read outside of it raises IndexError, as in Python.

cimport cython

ctypedef const unsigned char[::1] Bytes

cdef long long LONG_MIN, LONG_MAX, NEAR_MAX, NO_TIMESTAMP
cdef unsigned long long NO_DELTA
cdef Py_ssize_t RECORD_ERRORS_MAX, HEADERS_MAX, RUN_MIN, RUN_PAUSE, RECORDS_AT
cdef Py_ssize_t LENGTH_AT, ATTRIBUTES_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT, COUNT_AT
cdef int VARINT_BITS, INT_VARINT_BITS, LENGTH_OVERHEAD, COMPRESSION, COMPRESSION_OR_TIMESTAMP_TYPE


@cython.final
cdef class Progress:
    cdef public Py_ssize_t i, p, headers
    cdef public long long newest
    cdef public list unkeyed, untimely

    cpdef bint complies(self, long long newest, Py_ssize_t size)


@cython.locals(
    size=Py_ssize_t, i=Py_ssize_t, p=Py_ssize_t, newest="long long", near=bint, last_t="unsigned long long",
    last_size=Py_ssize_t, untimely=bint, try_at=Py_ssize_t, n="long long", m="long long", body=Py_ssize_t,
    end=Py_ssize_t, t="unsigned long long", at=Py_ssize_t, delta="long long", timestamp="long long", o="long long",
    key=Py_ssize_t, k="long long", value=Py_ssize_t, after=Py_ssize_t, last=Py_ssize_t, alike=bint, start=Py_ssize_t,
    found=Py_ssize_t, newest_found="long long",
)
cpdef int walk(
    Bytes data, Py_ssize_t upto, long long base, bint keyed, long long earliest, long long latest, Progress progress,
    object runs,
) except -1


@cython.locals(size=Py_ssize_t, progress=Progress, count=Py_ssize_t, base="long long")
cpdef bint batch_is_valid(Bytes batch, bint keyed, long long earliest, long long latest) except -1


@cython.locals(size=Py_ssize_t)
cpdef long long plain_records(Bytes batch) except? -2


@cython.locals(n="long long", i=Py_ssize_t)
cdef long long _number(Bytes data, Py_ssize_t at, Py_ssize_t size) except? -1

cdef long long _far_timestamp(object base, object delta, Py_ssize_t i) except? -1

cdef list _add_record_numbers(list records, Py_ssize_t first, Py_ssize_t count)


@cython.locals(count="long long", n="long long", _=Py_ssize_t)
cdef Py_ssize_t _headers(Bytes data, Py_ssize_t i, Py_ssize_t p, Py_ssize_t end, Progress progress) except -1


@cython.locals(n="unsigned long long", shift=int, byte="unsigned long long")
cdef (unsigned long long, Py_ssize_t) _varint(Bytes data, Py_ssize_t p, int bits_max) except *
