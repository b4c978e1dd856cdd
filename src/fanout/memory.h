/* What is remembered between tries: how often a dispatch was tried, and whose project a device is. Both are
 * bounded tables in which a newcomer takes the place of an older one; what is forgotten is found out again:
 * the tries count anew, the provider names the project anew. Both begin empty after a restart. Private to
 * src/fanout. */
#ifndef BELFRY_FANOUT_MEMORY_H
#define BELFRY_FANOUT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "rate.h"
#include "remote/provider.h"

enum {
    MEMORY_TRIES = 1 << 13,   /* dispatches: many windows' worth */
    MEMORY_DEVICES = 1 << 16, /* a mebibyte */
    MEMORY_PROJECTS_MAX = RATE_PROJECTS_MAX
};

struct memory_entry {
    int64_t id; /* 0: none; ids begin at 1 */
    uint32_t value, mark;
};

/* Of a dispatch that was refused before; all 0: it never was, or was forgotten. */
struct memory_tries {
    bool any;
    uint32_t count;   /* that count */
    uint32_t answers; /* of the breaker, when it was refused first */
};

struct memory {
    struct memory_entry *tries, *devices;
    size_t project_count; /* 0 is "not known" and has no name */
    char project_names[MEMORY_PROJECTS_MAX][PROVIDER_PROJECT_MAX + 1];
};

MUST_USE enum status memory_init(struct memory *memory, struct fault *fault);
void memory_done(struct memory *memory);

struct memory_tries memory_tries(const struct memory *memory, int64_t dispatch_id);
/* tries.any false forgets. */
void memory_set_tries(struct memory *memory, int64_t dispatch_id, struct memory_tries tries);

/* 0: not known. */
size_t memory_project(const struct memory *memory, int64_t device_id);
void memory_set_project(struct memory *memory, int64_t device_id, size_t project);
/* The number of the project of that name, a new one when there is room; 0 when there is none. */
size_t memory_project_named(struct memory *memory, const char *name);

#endif
