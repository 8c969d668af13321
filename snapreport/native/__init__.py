"""The native library: C functions that read strangers' files and sweep over long recordings.

All ``.c`` files here make one library. ``compiling`` makes it, ``library`` opens it, and the other
modules have a function for each of its entry points, which checks what it hands over: nothing else
does. The library is always there; where it is not, an error says what to do.
"""
