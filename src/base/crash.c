/* Only in the crash-point build. Passes are counted over the whole process. */
#include "base/crash.h"

#ifdef BELFRY_CRASH_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void crash_point_pass(const char *name)
{
    static atomic_long passes;
    const char *wanted = getenv("BELFRY_CRASH");
    size_t bytes = strlen(name);
    if (wanted == NULL || strncmp(wanted, name, bytes) != 0 ||
        (wanted[bytes] != '\0' && wanted[bytes] != ':'))
        return;
    char *end = NULL;
    long at = wanted[bytes] == ':' ? strtol(wanted + bytes + 1, &end, 10) : 1;
    if (atomic_fetch_add(&passes, 1) + 1 == at)
        raise(end != NULL && strcmp(end, ":stop") == 0 ? SIGSTOP : SIGKILL);
}
#else
typedef int crash_points_are_off; /* a translation unit is never empty */
#endif
