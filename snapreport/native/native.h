/* What all of the library has in common. Nothing of Python is in it, so that one build serves every
 * version of Python; the modules beside this check what they hand over, and call it. */

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

/* What functions that sweep return where they do not succeed: there is no memory, or no room where
 * their result goes; or a number, an order or a length is not as it has to be. As in library.py. */
enum { NO_ROOM = -1, OUT_OF_RANGE = -2 };

#endif
