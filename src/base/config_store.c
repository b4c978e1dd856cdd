/* The values in force in, the fields of a settings struct out. Written only after every source was read, so
 * that nothing is half applied. */
#include <stdio.h>
#include <string.h>

#include "config_private.h"

static enum status store_entry(struct config *config, const struct config_entry *entry, char *settings,
                               struct fault *fault)
{
    char field[FAULT_FIELD_MAX];
    struct fault inner;
    if (config_value_store(&config->arena, entry->key, entry->value,
                           settings + entry->section->offset + entry->key->offset, &inner) == ST_OK)
        return ST_OK;
    snprintf(field, sizeof field, "%s.%s", entry->section->name, entry->name);
    fault_set(fault, "config", "%s: [%s] %s: %s", entry->where, entry->section->name, entry->name,
              entry->key->type == CONFIG_SECRET ? "not a usable value" : inner.text);
    fault_set_field(fault, field);
    return ST_REJECT;
}

/* The pairs of one pass-through or named section, in order. */
static enum status collect(struct config *config, const struct config_section *section, const char *named,
                           struct config_pairs *out, struct fault *fault)
{
    struct config_pair *pairs = arena_array(&config->arena, CONFIG_PAIRS_MAX, sizeof *pairs);
    struct config_pairs made = {.name = named, .pairs = pairs};
    if (pairs == NULL)
        return config_refuse_size(fault);
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        if (entry->section != section || !span_same(span_of(entry->named), span_of(named)))
            continue;
        if (entry->name[0] == '\0') {
            made.line = entry->line;
            continue;
        }
        if (made.count == CONFIG_PAIRS_MAX)
            return config_refuse_size(fault);
        pairs[made.count++] =
            (struct config_pair){.key = entry->name, .value = entry->value, .line = entry->line};
    }
    *out = made;
    return ST_OK;
}

static enum status collect_named(struct config *config, const struct config_section *section,
                                 struct config_named *out, struct fault *fault)
{
    struct config_pairs *sections = arena_array(&config->arena, CONFIG_NAMED_MAX, sizeof *sections);
    struct config_named made = {.sections = sections};
    if (sections == NULL)
        return config_refuse_size(fault);
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        if (entry->section != section || entry->name[0] != '\0')
            continue;
        if (made.count == CONFIG_NAMED_MAX)
            return config_refuse_size(fault);
        enum status status = collect(config, section, entry->named, &sections[made.count++], fault);
        if (status != ST_OK)
            return status;
    }
    *out = made;
    return ST_OK;
}

enum status config_store(struct config *config, char *settings, struct fault *fault)
{
    enum status status = ST_OK;
    for (size_t i = 0; i < config->entry_count && status == ST_OK; i++) {
        if (config->entries[i].key != NULL)
            status = store_entry(config, &config->entries[i], settings, fault);
    }
    for (size_t i = 0; i < config->table->section_count && status == ST_OK; i++) {
        const struct config_section *section = &config->table->sections[i];
        void *field = settings + section->offset;
        if (section->kind == CONFIG_PAIRS)
            status = collect(config, section, NULL, field, fault);
        else if (section->kind == CONFIG_NAMED)
            status = collect_named(config, section, field, fault);
    }
    return status;
}
