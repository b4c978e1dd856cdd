/* Tables of 2^n places; an id has one. In: ids. Out: small numbers. Always holds: a number is only given for
 * the very id it was set for. A crash here loses them all, and nothing else. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "model/dispatch.h"

enum status memory_init(struct memory *memory, struct fault *fault)
{
    *memory = (struct memory){.project_count = 1};
    memory->tries = calloc(MEMORY_TRIES, sizeof memory->tries[0]);
    memory->devices = calloc(MEMORY_DEVICES, sizeof memory->devices[0]);
    if (memory->tries != NULL && memory->devices != NULL)
        return ST_OK;
    fault_set(fault, "memory", "no memory for what fan-out remembers");
    return ST_FATAL;
}

void memory_done(struct memory *memory)
{
    free(memory->tries);
    free(memory->devices);
}

/* Neighbours keep apart: dispatches of a batch follow each other, and so do devices. The batch, above the
 * ordinal, is mixed in. */
static size_t place_of(size_t count, int64_t id)
{
    return (size_t)((id >> DISPATCH_ORDINAL_BITS) * 1021 + id) & (count - 1);
}

struct memory_tries memory_tries(const struct memory *memory, int64_t dispatch_id)
{
    const struct memory_entry *entry = &memory->tries[place_of(MEMORY_TRIES, dispatch_id)];
    if (entry->id != dispatch_id)
        return (struct memory_tries){.any = false};
    return (struct memory_tries){.any = true, .count = entry->value, .answers = entry->mark};
}

void memory_set_tries(struct memory *memory, int64_t dispatch_id, struct memory_tries tries)
{
    struct memory_entry *entry = &memory->tries[place_of(MEMORY_TRIES, dispatch_id)];
    if (tries.any)
        *entry = (struct memory_entry){.id = dispatch_id, .value = tries.count, .mark = tries.answers};
    else if (entry->id == dispatch_id)
        entry->id = 0;
}

size_t memory_project(const struct memory *memory, int64_t device_id)
{
    const struct memory_entry *entry = &memory->devices[place_of(MEMORY_DEVICES, device_id)];
    return entry->id == device_id ? entry->value : 0;
}

void memory_set_project(struct memory *memory, int64_t device_id, size_t project)
{
    memory->devices[place_of(MEMORY_DEVICES, device_id)] =
        (struct memory_entry){.id = device_id, .value = (uint32_t)project};
}

size_t memory_project_named(struct memory *memory, const char *name)
{
    if (name[0] == '\0')
        return 0;
    for (size_t i = 1; i < memory->project_count; i++) {
        if (strcmp(memory->project_names[i], name) == 0)
            return i;
    }
    if (memory->project_count == MEMORY_PROJECTS_MAX)
        return 0;
    size_t project = memory->project_count++;
    memcpy(memory->project_names[project], name, strlen(name) + 1);
    return project;
}
