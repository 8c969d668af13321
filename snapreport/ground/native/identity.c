/* Which sources the library was made from: library.py checks it before it loads the library. */

#include "native.h"

EXPORT const char snapreport_sources[] = "snapreport sources " SOURCES_HASH;
