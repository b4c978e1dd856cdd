/* In: what the configuration and the catalog say. Out: what serves each feed. Always: one entry a name. A
 * crash here is a crash at start. */
#include "feed/feeds.h"

#include <assert.h>

#include "feed/routes.h"

struct feeds_entry *feeds_find(struct feeds *feeds, struct span name)
{
    for (size_t i = 0; i < feeds->count; i++)
        if (span_is(name, feeds->entries[i].name))
            return &feeds->entries[i];
    return NULL;
}

struct feeds_entry *feeds_find_path(struct feeds *feeds, struct span path)
{
    for (size_t i = 0; i < feeds->count; i++)
        if (feeds->entries[i].path != NULL && routes_is_path(path, feeds->entries[i].path))
            return &feeds->entries[i];
    return NULL;
}

void feeds_declare(struct feeds *feeds, const char *name, const char *path)
{
    assert(feeds->count < FEEDS_MAX && feeds_find(feeds, span_of(name)) == NULL);
    feeds->entries[feeds->count++] = (struct feeds_entry){.name = name, .path = path};
}

enum status feeds_serve(struct feeds *feeds, const struct source *source, int64_t settle_max_ms,
                        struct fault *fault)
{
    if (feeds_find(feeds, span_of(source->name)) == NULL)
        feeds_declare(feeds, source->name, source->path);
    struct feeds_entry *entry = feeds_find(feeds, span_of(source->name));
    assert(entry->source == NULL);
    enum status status = row_form_init(&entry->form, source, fault);
    if (status != ST_OK)
        return status;
    entry->statements = page_compose(source, settle_max_ms);
    if (entry->statements == NULL) {
        fault_set(fault, "memory", "no memory for the feed's statements");
        return ST_FATAL;
    }
    entry->source = source;
    return ST_OK;
}

void feeds_done(struct feeds *feeds)
{
    for (size_t i = 0; i < feeds->count; i++) {
        page_statements_free(feeds->entries[i].statements);
        row_form_done(&feeds->entries[i].form);
    }
    feeds->count = 0;
}
