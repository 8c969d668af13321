/* What all parts of the library share. It does not use Python, so that one build serves every
 * version of Python; the modules in this folder check the arguments and call it. */

#ifndef SNAPREPORT_NATIVE_H
#define SNAPREPORT_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* What functions that sweep return if they fail: there is not enough memory, or room for the
 * result; or a number, an order or a length is wrong. As in library.py. */
enum { NO_ROOM = -1, OUT_OF_RANGE = -2 };

#endif
