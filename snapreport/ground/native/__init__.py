"""The native library: C functions that read strangers' files and sweep over long recordings.

All ``.c`` files here are compiled into one library. ``compiling`` makes it, ``library`` opens it,
and the other modules have a function for each of its entry points, which alone checks the
arguments. The library is required; if it is missing, an error says what to do.
"""
