/* In: what the configuration and the catalog say. Out: what serves each feed. Always: one entry a name. A
 * crash here is a crash at start. */
#include "feed/feeds.h"

#include <assert.h>

#include "feed/routes.h"

enum { SOURCE_ARENA_BYTES_MAX = 128 * 1024 };

const struct feeds_entry *feeds_find_served(const struct feeds *feeds, struct span name)
{
    for (size_t i = 0; i < feeds->count; i++)
        if (feeds->entries[i].source != NULL && span_is(name, feeds->entries[i].name))
            return &feeds->entries[i];
    return NULL;
}

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

static struct feeds_entry *feeds_add(struct feeds *feeds, const char *name, const char *path)
{
    assert(feeds->count < FEEDS_MAX && feeds_find(feeds, span_of(name)) == NULL);
    struct feeds_entry *entry = &feeds->entries[feeds->count++];
    *entry = (struct feeds_entry){.name = name, .path = path};
    arena_init(&entry->arena, SOURCE_ARENA_BYTES_MAX);
    return entry;
}

enum status feeds_init(struct feeds *feeds, const struct config_named *declared, int64_t settle_max_ms,
                       struct fault *fault)
{
    struct declared read = {.count = 0};
    *feeds = (struct feeds){.count = 0};
    arena_init(&feeds->arena, DECLARE_ARENA_BYTES_MAX);
    enum status status = feeds_serve(feeds, &source_notifications, settle_max_ms, fault);
    if (status == ST_OK)
        status = declare_feeds(declared, &feeds->arena, &read, fault);
    for (size_t i = 0; status == ST_OK && i < read.count; i++)
        feeds_add(feeds, read.feeds[i].name, read.feeds[i].path)->declaration = &read.feeds[i];
    return status;
}

enum status feeds_serve(struct feeds *feeds, const struct source *source, int64_t settle_max_ms,
                        struct fault *fault)
{
    struct feeds_entry *entry = feeds_find(feeds, span_of(source->name));
    if (entry == NULL)
        entry = feeds_add(feeds, source->name, source->path);
    assert(entry->source == NULL);
    enum status status = row_form_init(&entry->form, source, fault);
    if (status != ST_OK)
        return status;
    entry->fill = export_compose(source);
    entry->statements = page_compose(source, settle_max_ms);
    if (entry->statements == NULL || entry->fill == NULL) {
        fault_set(fault, "memory", "no memory for the feed's statements");
        return ST_FATAL;
    }
    entry->source = source;
    return ST_OK;
}

void feeds_warn(const struct feeds *feeds, struct config *config)
{
    for (size_t i = 0; i < feeds->count; i++) {
        const struct source_declaration *declared = feeds->entries[i].declaration;
        if (declared != NULL && declared->workspace_column != NULL && declared->user_column == NULL &&
            declared->auth != SOURCE_MEMBER)
            config_warn(config,
                        "[feed.%s] has workspaces and asks for no membership: %s may read each of them",
                        declared->name, declared->auth == SOURCE_OPEN ? "anybody" : "whoever has a token");
    }
}

enum status feeds_check(struct feeds *feeds, struct feeds_entry *entry, struct db *db, int64_t settle_max_ms,
                        struct fault *fault)
{
    arena_reset(&entry->arena); /* of a check that the database's loss ended */
    struct source *source = arena_alloc(&entry->arena, sizeof *source);
    if (source == NULL) {
        fault_set(fault, "memory", "no memory for the feed");
        return ST_FATAL;
    }
    enum status status = source_check(db, entry->declaration, &entry->arena, source, fault);
    return status == ST_OK ? feeds_serve(feeds, source, settle_max_ms, fault) : status;
}

void feeds_done(struct feeds *feeds)
{
    for (size_t i = 0; i < feeds->count; i++) {
        page_statements_free(feeds->entries[i].statements);
        export_statement_free(feeds->entries[i].fill);
        row_form_done(&feeds->entries[i].form);
        arena_done(&feeds->entries[i].arena);
    }
    arena_done(&feeds->arena);
    feeds->count = 0;
}
